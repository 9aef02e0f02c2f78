"""One endpoint of the usual APIs in front of engines that take token ids: render, generate, derender."""
