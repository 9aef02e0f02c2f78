"""``Renderer``: requests to token ids. Plain and synchronous; the routes call it, and so may you."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from derender_core.errors import InputError
from derender_core.inputs import ParseContext
from derender_core.pipeline import Pipeline
from derender_server.api_request import renamed
from derender_server.chat_options import parse_context
from derender_server.chat_template import ChatTemplates, ContentFormat, load_templates, special_token_variables
from derender_server.limits import Limits
from derender_server.messages_request import MESSAGES_NAMES, messages_to_chat
from derender_server.mistral_chat import MistralChat
from derender_server.model import ServedModel
from derender_server.parser_choice import choose_for
from derender_server.prompt_ids import (
    PromptIds,
    completion_prompt_ids,
    encode_text,
    prompts_of,
    text_offsets,
    truncate,
)
from derender_server.responses_request import RESPONSES_NAMES, responses_to_chat
from derender_server.sampling import chat_sampling, completion_sampling
from derender_server.structured import chat_constraint, completion_constraint
from derender_server.wire.decode import input_error
from derender_server.wire.derender import ChatRequestView
from derender_server.wire.generate import GenerateRequest, RenderedContext, SamplingParams
from derender_server.wire.messages_api import MessagesRequest
from derender_server.wire.requests import (
    ChatCompletionRequest,
    CompletionRequest,
    DetokenizeRequest,
    DetokenizeResponse,
    NamedToolChoice,
    TemplateFields,
    TokenizeRequest,
    TokenizeResponse,
)
from derender_server.wire.responses_api import ResponsesRequest

__all__ = ["Renderer"]

M = TypeVar("M", bound=BaseModel)
CHAT_PREFIX = "chatcmpl-"


class Renderer:
    """Renders requests for one model. Holds no state of a request, so one object serves all threads.

    Args:
        model: the model.
        pipeline: the parsers that its answers will go through; they decide ``reasoning_ended`` and what the engine must
            not strip.
        chat_template: a file, the name of one of the model's templates, or a template as text, in place of the model's.
        content_format: whether the template gets text or lists of parts.
        default_template_kwargs: template variables for requests that do not set them.
        trust_request_templates: whether a request may bring its own ``chat_template``.
        limits: what a request may ask for; the model's length and vocabulary by default.
        enable_auto_tool_choice: whether calls of ``tool_choice: "auto"`` will be read; otherwise they are text, and an
            engine must not be held to their format.

    Raises:
        ModelLoadError: a template file cannot be read.
        TemplateError: a template is not valid.
    """

    def __init__(
        self,
        model: ServedModel,
        *,
        pipeline: Pipeline | None = None,
        chat_template: str | None = None,
        content_format: ContentFormat = "auto",
        default_template_kwargs: Mapping[str, Any] | None = None,
        trust_request_templates: bool = False,
        limits: Limits | None = None,
        enable_auto_tool_choice: bool = True,
    ) -> None:
        self.model = model
        self._auto = enable_auto_tool_choice
        self.pipeline = pipeline or Pipeline()
        self.default_template_kwargs = dict(default_template_kwargs or {})
        self.limits = limits or Limits(max_model_len=model.max_model_len, vocab_size=model.vocab_size)
        tokenizer_config = model.tokenizer.config
        self.templates = ChatTemplates(
            load_templates(model.directory, tokenizer_config, chat_template),
            special_tokens=special_token_variables(tokenizer_config),
            content_format=content_format,
            trust_requests=trust_request_templates,
        )
        self._mistral = None if self.templates.templates else MistralChat.of(model)

    @classmethod
    def from_pretrained(
        cls,
        path_or_repo: str | Path,
        *,
        tool_parser: str | None = None,
        reasoning_parser: str | None = None,
        revision: str | None = None,
        max_model_len: int | None = None,
        **options: Any,
    ) -> Renderer:
        """Load a model and its parsers by name.

        Args:
            path_or_repo: a directory, a Hugging Face repo id, or ``demo``.
            tool_parser: name of an installed tool parser; ``auto`` for the one that recognises the model.
            reasoning_parser: the same for the reasoning parser.
            revision: of the repo.
            max_model_len: context length in tokens, where the files do not say it.
            **options: of ``Renderer``.

        Raises:
            TokenizerLoadError: the model cannot be loaded.
            ParserLoadError: a parser cannot be loaded, or with ``auto`` not be chosen.
        """
        model = ServedModel.load(path_or_repo, revision=revision, max_model_len=max_model_len)
        template = options.get("chat_template")
        tool = choose_for(model, "tool", tool_parser, template)
        reasoning = choose_for(model, "reasoning", reasoning_parser, template)
        return cls(model, pipeline=Pipeline(tool, reasoning), **options)

    def render_chat(
        self, request: ChatCompletionRequest | Mapping[str, Any], *, request_id: str | None = None
    ) -> GenerateRequest:
        """Render a chat request.

        Args:
            request: an OpenAI chat completion request.
            request_id: takes the place of the random part of the id; so does the request's own ``request_id``.

        Raises:
            InputError: a field is wrong; names it. ``TemplateError`` when the template refuses the request,
                ``UnknownModelError`` when it names another model.
            ParserError: a parser failed.
        """
        chat = _read(ChatCompletionRequest, request)
        name = self.model.resolve_name(chat.model)
        context = self._context(chat)
        prompt = self._encode_chat(
            chat, context, add_special_tokens=chat.add_special_tokens, with_offsets=chat.return_token_offsets
        )
        prompt = truncate(prompt, chat, self.model)
        context = self.pipeline.open(context, self.model.tokenizer.prompt(prompt.token_ids))
        sampling = chat_sampling(
            chat,
            self.model,
            self.limits,
            len(prompt.token_ids),
            parsers_need_special_tokens=self._parsers_need_special_tokens(context),
            structured_outputs=chat_constraint(chat, context, self.pipeline.tool, auto=self._auto),
        )
        full_id = f"{CHAT_PREFIX}{request_id or chat.request_id or uuid.uuid4().hex}"
        rendered = _generate_request(chat, full_id, name, prompt, sampling)
        if self.pipeline.reasoning is not None:
            # Where only the output can tell, reasoning may still come, and a grammar must wait for its end.
            rendered.reasoning_ended = context.reasoning_open is False
            rendered.reasoning_parser_kwargs = {"chat_template_kwargs": dict(context.template_kwargs)}
        rendered.parse_context = _rendered_context(chat, context)
        return rendered

    def render_completion(
        self, request: CompletionRequest | Mapping[str, Any], *, request_id: str | None = None
    ) -> list[GenerateRequest]:
        """Render a text completion request: one result for each prompt.

        Arguments and errors as for ``render_chat``.
        """
        completion = _read(CompletionRequest, request)
        name = self.model.resolve_name(completion.model)
        prompts = prompts_of(completion)
        self.limits.check_count(len(prompts) * completion.n, "prompt")
        constraint = completion_constraint(completion)
        stem = f"cmpl-{request_id or completion.request_id or uuid.uuid4().hex}"
        rendered = []
        for at, prompt in enumerate(prompts):
            param = f"prompt.{at}" if len(prompts) > 1 else "prompt"
            ids = completion_prompt_ids(completion, prompt, self.model, self.limits, param)
            sampling = completion_sampling(
                completion,
                self.model,
                self.limits,
                len(ids.token_ids),
                prompt_field=param,
                structured_outputs=constraint,
            )
            full_id = f"{stem}-{at}" if len(prompts) > 1 else stem
            rendered.append(_generate_request(completion, full_id, name, ids, sampling))
        return rendered

    def render_responses(
        self, request: ResponsesRequest | Mapping[str, Any], *, request_id: str | None = None
    ) -> GenerateRequest:
        """Render an OpenAI Responses request, by way of the chat request that means the same.

        Arguments and errors as for ``render_chat``.
        """
        asked = _read(ResponsesRequest, request)
        return self._render_as_chat(responses_to_chat(asked), RESPONSES_NAMES, "resp_", request_id)

    def render_messages(
        self, request: MessagesRequest | Mapping[str, Any], *, request_id: str | None = None
    ) -> GenerateRequest:
        """Render an Anthropic Messages request, by way of the chat request that means the same.

        Arguments and errors as for ``render_chat``.
        """
        asked = _read(MessagesRequest, request)
        return self._render_as_chat(messages_to_chat(asked), MESSAGES_NAMES, "msg_", request_id)

    def tokenize(self, request: TokenizeRequest | Mapping[str, Any]) -> TokenizeResponse:
        """Tokenize a text, or messages as they would be rendered.

        Raises:
            InputError: as for ``render_chat``; a prompt may be longer than the model's context.
        """
        asked = _read(TokenizeRequest, request)
        self.model.resolve_name(asked.model)
        add = asked.add_special_tokens if asked.add_special_tokens is not None else asked.prompt is not None
        tokenizer = self.model.tokenizer
        if asked.prompt is None:
            token_ids = self._encode_chat(asked, self._context(asked), add_special_tokens=add).token_ids
        else:
            token_ids = encode_text(tokenizer, asked.prompt, add_special_tokens=add, param="prompt").token_ids
        return TokenizeResponse(
            count=len(token_ids),
            max_model_len=self.model.max_model_len,
            tokens=token_ids,
            token_strs=[tokenizer.token_text(token_id) for token_id in token_ids] if asked.return_token_strs else None,
        )

    def detokenize(self, request: DetokenizeRequest | Mapping[str, Any]) -> DetokenizeResponse:
        """The text of token ids, special tokens written out.

        Raises:
            InputError: too many ids, or another model is named.
            TokenIdError: an id that is not the model's.
        """
        asked = _read(DetokenizeRequest, request)
        self.model.resolve_name(asked.model)
        self.limits.check_ids(asked.tokens, "tokens")
        return DetokenizeResponse(prompt=self.model.tokenizer.decode(asked.tokens, skip_special_tokens=False))

    # -- steps -------------------------------------------------------------------------------------------------------

    def _encode_chat(
        self, chat: TemplateFields, context: ParseContext, *, add_special_tokens: bool, with_offsets: bool = False
    ) -> PromptIds:
        """The prompt of a chat: by the template, or without one as the tokenizer's own library does it."""
        tokenizer = self.model.tokenizer
        if self._mistral is not None:
            token_ids = self._mistral.token_ids(chat, context.template_kwargs)
            return PromptIds(token_ids, text_offsets(tokenizer, token_ids) if with_offsets else None)
        text = self.templates.render(chat, context.template_kwargs)
        return encode_text(
            tokenizer, text, add_special_tokens=add_special_tokens, param="messages", with_offsets=with_offsets
        )

    def _render_as_chat(
        self, chat: Mapping[str, Any], names: Mapping[str, str], prefix: str, request_id: str | None
    ) -> GenerateRequest:
        try:
            rendered = self.render_chat(chat, request_id=request_id)
        except InputError as error:
            raise renamed(error, names) from error
        rendered.request_id = prefix + rendered.request_id.removeprefix(CHAT_PREFIX)
        return rendered

    def _context(self, request: TemplateFields) -> ParseContext:
        """The parsers' context, made as derender makes it, so that both see the same template variables."""
        tools = [tool.raw for tool in request.tools] if request.tools else None
        view = ChatRequestView(
            tools=tools,
            tool_choice=request.tool_choice_text if isinstance(request, ChatCompletionRequest) else None,
            reasoning_effort=request.reasoning_effort,
            chat_template_kwargs=request.chat_template_kwargs,
        )
        return parse_context(view, default_kwargs=self.default_template_kwargs, stream_tool_calls="whole")

    def _parsers_need_special_tokens(self, context: ParseContext) -> bool:
        tokenizer = self.model.tokenizer
        wanted = (tokenizer.token_id(token) for token in self.pipeline.special_tokens(context))
        return any(token_id in tokenizer.special_ids for token_id in wanted)


def _generate_request(
    request: ChatCompletionRequest | CompletionRequest,
    request_id: str,
    model: str,
    prompt: PromptIds,
    sampling: SamplingParams,
) -> GenerateRequest:
    return GenerateRequest.model_construct(  # all values are checked; validating 100,000 ids again takes time
        request_id=request_id,
        token_ids=prompt.token_ids,
        sampling_params=sampling,
        model=model,
        stream=bool(request.stream),
        stream_options=request.stream_options,
        return_token_ids=request.return_token_ids,
        cache_salt=request.cache_salt,
        priority=request.priority,
        kv_transfer_params=request.kv_transfer_params,
        ec_transfer_params=request.ec_transfer_params,
        token_offsets=prompt.offsets,
    )


def _read(model: type[M], value: M | Mapping[str, Any]) -> M:
    if isinstance(value, model):
        return value
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise input_error(error, value) from error


def _rendered_context(request: ChatCompletionRequest, context: ParseContext) -> RenderedContext:
    named = request.tool_choice if isinstance(request.tool_choice, NamedToolChoice) else None
    return RenderedContext(
        tools=[tool.raw for tool in request.tools] if request.tools else None,
        tool_choice=named.model_dump() if named else request.tool_choice_text,
        parallel_tool_calls=request.parallel_tool_calls is not False,
        include_reasoning=request.include_reasoning,
        chat_template_kwargs=dict(context.template_kwargs),
        history_tool_call_cnt=sum(len(message.tool_calls or ()) for message in request.messages),
    )
