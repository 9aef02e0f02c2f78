"""The core of derender: parser hooks, the machines to write them with, and streams of token ids.

Everything that a parser author or a user of the library needs is here; the modules behind it are not public.
"""

from derender_core.attribute_tags import AttributeTagMachine
from derender_core.auto_choice import choose_parser
from derender_core.bare_key_call import BareKeyCallMachine
from derender_core.combined import CombinedMachine
from derender_core.detokenize import Decoded, Detokenizer
from derender_core.element_values import element_json
from derender_core.errors import (
    AmbiguousParserError,
    BrokenParserError,
    DerenderError,
    InputError,
    ParserError,
    ParserLoadError,
    StateError,
    TemplateError,
    TokenIdError,
    TokenizerLoadError,
    UnknownParserError,
    UnsureParserError,
)
from derender_core.events import (
    Event,
    Reasoning,
    Text,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    merge_events,
)
from derender_core.function_tags import FunctionTagMachine
from derender_core.hookspecs import HookSpecs, Span, State, Step, hookimpl
from derender_core.inputs import Delta, ParseContext, Prompt, Special, Tool, ToolChoice
from derender_core.json_call import JsonCallMachine, Progress
from derender_core.json_text import (
    Call,
    dump_json,
    normalize_arguments,
    parse_call,
    parse_calls,
    parse_object,
)
from derender_core.list_call import ListCallMachine
from derender_core.machine import NEED_DATA, Machine, NeedData
from derender_core.member_call import MemberCallMachine
from derender_core.message import Message, ToolCall, fold_message
from derender_core.model_facts import ModelFacts, ModelFamily
from derender_core.pair_tags import PairTagMachine
from derender_core.parameter_call import ParameterCallMachine, TagHead
from derender_core.parameter_tags import Parameter, parameters_node, python_call_tags
from derender_core.parser_sources import ParserSource
from derender_core.pipeline import Pipeline
from derender_core.plugin import MachinePlugin
from derender_core.positional_call import PositionalCallMachine
from derender_core.python_calls import (
    check_python_state,
    is_python_name,
    parse_python_calls,
    python_json,
    scan_python_list,
)
from derender_core.python_list import PythonListMachine
from derender_core.region_machine import RegionMachine, SectionMachine
from derender_core.registry import Parser, ParserInfo, Slot, list_parsers, load_parser, make_parser
from derender_core.replay import FeedParser, ReplayPlugin, replay
from derender_core.schema_values import parameter_schema, schema_types, typed_value
from derender_core.stop import StopStrings
from derender_core.stream import Stream
from derender_core.stream_setup import StreamSetup
from derender_core.structural_tag import (
    call_list,
    call_objects,
    call_section,
    call_tag,
    call_tags,
    numbered_tag,
    offered_tools,
    tag_node,
)
from derender_core.tagged_call import TaggedCallMachine
from derender_core.tagged_section import TaggedSectionMachine
from derender_core.think import ThinkMachine
from derender_core.tokenizer import ModelTokenizer
from derender_core.tool_machine import ToolMachine

__all__ = [
    "NEED_DATA",
    "AmbiguousParserError",
    "AttributeTagMachine",
    "BareKeyCallMachine",
    "BrokenParserError",
    "Call",
    "CombinedMachine",
    "Decoded",
    "Delta",
    "DerenderError",
    "Detokenizer",
    "Event",
    "FeedParser",
    "FunctionTagMachine",
    "HookSpecs",
    "InputError",
    "JsonCallMachine",
    "ListCallMachine",
    "Machine",
    "MachinePlugin",
    "MemberCallMachine",
    "Message",
    "ModelFacts",
    "ModelFamily",
    "ModelTokenizer",
    "NeedData",
    "PairTagMachine",
    "Parameter",
    "ParameterCallMachine",
    "ParseContext",
    "Parser",
    "ParserError",
    "ParserInfo",
    "ParserLoadError",
    "ParserSource",
    "Pipeline",
    "PositionalCallMachine",
    "Progress",
    "Prompt",
    "PythonListMachine",
    "Reasoning",
    "RegionMachine",
    "ReplayPlugin",
    "SectionMachine",
    "Slot",
    "Span",
    "Special",
    "State",
    "StateError",
    "Step",
    "StopStrings",
    "Stream",
    "StreamSetup",
    "TagHead",
    "TaggedCallMachine",
    "TaggedSectionMachine",
    "TemplateError",
    "Text",
    "ThinkMachine",
    "TokenIdError",
    "TokenizerLoadError",
    "Tool",
    "ToolCall",
    "ToolCallArguments",
    "ToolCallEnd",
    "ToolCallStart",
    "ToolChoice",
    "ToolMachine",
    "UnknownParserError",
    "UnsureParserError",
    "call_list",
    "call_objects",
    "call_section",
    "call_tag",
    "call_tags",
    "check_python_state",
    "choose_parser",
    "dump_json",
    "element_json",
    "fold_message",
    "hookimpl",
    "is_python_name",
    "list_parsers",
    "load_parser",
    "make_parser",
    "merge_events",
    "normalize_arguments",
    "numbered_tag",
    "offered_tools",
    "parameter_schema",
    "parameters_node",
    "parse_call",
    "parse_calls",
    "parse_object",
    "parse_python_calls",
    "python_call_tags",
    "python_json",
    "replay",
    "scan_python_list",
    "schema_types",
    "tag_node",
    "typed_value",
]
