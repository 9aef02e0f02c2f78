"""The pytest plugin of derender: corpora of golden cases as tests, with no test code written."""
