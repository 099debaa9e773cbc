"""What injected instructions say, as patterns for folded texts; every repetition in them is bounded.

Scores are how much a phrase alone says: 0.6 and more is rarely said to a person, less counts only together
with other phrases nearby. The first groups follow the OWASP list of prompt injection techniques (LLM01).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from attrs import frozen

from reactive_agents.adapters.governance.guardrails.folding import folded_pattern


@frozen
class Phrase:
    """A pattern of what injected instructions say.

    Attributes:
        name: the kind of attack.
        score: 0 to 1.
        ascii_only: whether it can occur in a text that is all ASCII.
    """

    name: str
    pattern: re.Pattern[str]
    score: float
    ascii_only: bool


def compiled(sources: Sequence[tuple[str, str, float]]) -> tuple[Phrase, ...]:
    """The phrases of a table of names, regular expressions and scores."""
    return tuple(
        Phrase(name, re.compile(folded_pattern(source)), score, source.isascii())
        for name, source, score in sources
    )


_S = r"[\s,\-_*>#]{1,6}"
_VERB = (
    r"(?:ignor(?:e|ing)|disregard(?:ing)?|forget|overrid(?:e|ing)|bypass|neglect|discard|overlook|abandon"
    r"|(?:do not|don't|never|stop) (?:follow|obey|comply with|adher\w{0,3} to|apply|listen\w{0,3} to)\w{0,"
    r"3}"
    r"|pay no attention to|set aside|throw (?:out|away)|cancel|delete|erase|drop)"
)
_WHICH = (
    r"(?:all|of|any|the|that|and|or|every|each|both|other|you|were|have|been|given|got|received|content"
    r"|{strong})"
)
_STRONG = (
    r"previous(?:ly)?|prior|above|earlier|preceding|past|former|foregoing|your|system|initial|original|exi"
    r"sting"
    r"|safety|ethical|moral|openai(?:'s)?|anthropic(?:'s)?|built-?in|developer(?:'s)?|hidden|pre-?set"
)
_OBJECT = (
    r"(?:instructions?|prompts?|rules|guidelines|directives?|commands?|constraints?|restrictions?|programm"
    r"ing"
    r"|training|polic(?:y|ies)|guardrails?|filters?|orders|directions|context|protocols?|limitations"
    r"|safeguards|messages? above|input above|text above|conversation)"
)
_SECRET = (
    r"(?:passwords?|api[ _\-]?keys?|credentials?|secrets?|access tokens?|session tokens?|cookies|private k"
    r"eys?"
    r"|ssh keys?|env(?:ironment)? variables?|\.env|chat history|conversation(?: history)?|contacts"
    r"|system prompt|customer (?:data|records)|user'?s? data)"
)
_SHOW = (
    r"(?:reveal|show|print|repeat|output|display|tell(?: me| us)?|give(?: me| us)?|disclose|leak|dump|echo"
    r"|recite"
    r"|share|write(?: out| down)?|expose|return|spell out|summari[sz]e|translate|what(?:'s| is| are| was| "
    r"were))"
)
_SOURCES: tuple[tuple[str, str, float], ...] = (
    # --- instructions are taken back
    ("override", rf"\b{_VERB}{_S}(?:{_WHICH.format(strong=_STRONG)}{_S}){{0,5}}(?:{_STRONG}){_S}"
     rf"(?:{_WHICH.format(strong=_STRONG)}{_S}){{0,3}}{_OBJECT}\b", 0.85),
    ("override", rf"\b{_VERB}{_S}(?:all|any|every){_S}(?:of )?"
     rf"(?:the |these |those |my |our )?{_OBJECT}\b", 0.62),
    ("override", rf"\b{_VERB}{_S}(?:the |these |those |any )?{_OBJECT}{_S}(?:above|before|you (?:were|have"
     rf"|got)|so far)",
     0.7),
    ("override", r"\b(?:ignore|disregard|forget) (?:everything|anything|all|whatever|what)(?: that)? (?:(?"
     r":was|is|has been) )?"
     r"(?:above|before this|you (?:know|were|have|'ve|learned|had)|i (?:said|told)|(?:said|written|stated)"
     r" (?:above|before)"
     r"|they (?:said|told)|the (?:system|developer))", 0.75),
    ("override", r"\b(?:previous|prior|above|earlier|original|old|initial|system)"
     r" (?:instructions?|rules|guidelines|prompts?|directives?|restrictions) (?:(?:is|are|were|have been|h"
     r"as been) )?(?:now )?"
     r"(?:void|null|cancell?ed|revoked|outdated|superseded|suspended|lifted|overridden|no longer (?:valid|"
     r"apply|in effect))",
     0.75),
    ("new-role", r"\b(?:your|here are(?: your)?|these are your) (?:new|real|actual|true|only|updated)"
     r" (?:instructions?|tasks?|goals?|objectives?|directives?|purpose|role|orders|system prompt)\b", 0.62),
    ("new-role", r"\b(?:new|updated|real|begin|start of) (?:system )?(?:instructions?|directives?|prompt)"
     r"\s{0,3}[:\]>]", 0.55),
    # --- another role
    ("new-role", r"\byou are (?:now|no longer|from now on|hereby|actually)(?: (?:an?|the|called|in|going t"
     r"o be|acting as))?"
     r" (?:dan|aim|stan|dude|evil\w{0,5}|jailbroken|unrestricted|uncensored|unfiltered|unaligned|free|root"
     r"|admin\w{0,10}"
     r"|bound|restricted|limited|subject|developer mode|debug mode|god mode|opposite|hacker\w{0,4}|chaosgp"
     r"t|\w{2,12}gpt)\b", 0.85),
    ("new-role", r"\byou are now (?:an? |the |in )", 0.4),
    ("new-role", r"\bfrom now on,? (?:you|always|only|respond|answer|reply|act)\b", 0.4),
    ("new-role", r"\b(?:act|behave|respond|answer|reply|role-?play|pretend|imagine|simulate|write)\b[^.!?"
     r"\n]{0,60}"
     r"\b(?:no|without(?: any)?|free (?:of|from)|not bound by|ignoring)(?: (?:any|all|your|ethical|moral|c"
     r"ontent|safety|and|or|legal))"
     r"{0,4} (?:restrictions?|filters?|rules|limits|limitations|guidelines|censorship|ethics|morals?|discl"
     r"aimers?|warnings)\b", 0.7),
    ("new-role", r"\b(?:do anything now|dan mode|jailbreak mode|god mode enabled|developer mode (?:enabled"
     r"|output|on|activated)"
     r"|unrestricted mode|no[- ]filter mode|opposite mode)\b", 0.65),
    ("new-role", r"\b(?:enter|enable|activate|switch to|engage|you are in)(?: \w{1,12}){0,2} (?:developer|"
     r"dan|debug|god|jailbreak|admin"
     r"|maintenance|sudo|unrestricted|diagnostic|override) mode\b", 0.5),
    ("authority", r"\b(?:admin(?:istrator)?|developer|root|sudo|system|security|emergency|maintenance) "
     r"(?:override|access)[ :,]{1,3}(?:code|enabled|activated|granted|engaged|accepted|token|authori[sz]ed"
     r"|initiated)", 0.65),
    ("authority", r"\b(?:i am|this is|i'm|speaking as) (?:your|the|an?) (?:developer|creator|administrator"
     r"|openai|anthropic"
     r"|system administrator"
     r"|openai (?:engineer|employee|staff)|anthropic (?:engineer|employee|staff))\b", 0.45),
    # --- the prompt is asked for
    ("prompt-leak", rf"\b{_SHOW}\b[^.!?\n]{{0,40}}\b(?:system|hidden|secret|initial|original|internal|pre-"
     rf"?) ?-?"
     r"(?:prompt|instructions?|message|directives?|configuration)\b", 0.62),
    ("prompt-leak", rf"\b{_SHOW} (?:me |us )?(?:all |all of |exactly )?your (?:exact |full |complete |enti"
     rf"re |own |first )?"
     r"(?:prompt|instructions|rules|guidelines|configuration)\b", 0.65),
    ("prompt-leak", r"\b(?:repeat|print|output|copy|echo|recite|return) (?:me )?(?:all|everything|the (?:w"
     r"ords|text|content|lines?|message))"
     r"(?: of the \w{1,12})?(?: that \w{1,10}| written)? (?:above|before this|preceding)\b", 0.75),
    # --- the format of a prompt is imitated
    ("markup", r"<\|(?:im_start|im_end|system|user|assistant|endoftext|start_header_id|eot_id)\|>", 0.5),
    ("markup", r"(?:<<sys>>|<</sys>>|\[/?inst\]|<\|im_start\|>system|<start_of_turn>)", 0.5),
    ("markup", r"(?:^|\n)[ \t#*>\[\-=<]{0,8}(?:system|assistant)(?: (?:message|prompt|note|update|notice|a"
     r"lert|command))?"
     r"[\]*>= ]{0,4}:", 0.4),
    ("markup", r"[<\[{](?:system|admin|developer|assistant)(?:[ _\-](?:message|prompt|note|instructions?|o"
     r"verride))?[>\]}]", 0.4),
    ("markup", r"(?<![\-=#*~\[<])[\-=#*~\[<]{2,40} ?(?:end|begin|start)(?: of)?(?: the)?(?: \w{1,10}){0,2}"
     r" (?:prompt|instructions?|input|context|document|data|message|text|tool output)\b", 0.5),
    # --- addressed to whatever model reads it
    ("addressed", r"\b(?:attention|notes?|messages?|instructions?|important|notice|warning|hint|memo|remin"
     r"der)\b[^.\n]{0,24}"
     r"\b(?:to|for|:) ?(?:any |all |the |every )?(?:ai|llms?|language models?|ai \w{4,10}|chatbots?|gpt|ch"
     r"atgpt|claude|gemini"
     r"|assistants?|automated \w{4,10})\b", 0.42),
    ("addressed", r"\b(?:if|when|since|because) you(?: are|'re)(?: an?| the)? (?:ai|llm|large language|lan"
     r"guage model|assistant|chatbot"
     r"|automated|bot|gpt|agent)\b", 0.42),
    ("addressed", r"(?:^|[\n.!?\"(>] {0,3})(?:dear |hey |hello |hi )?(?:ai|llm|chatgpt|gpt|claude|gemini|c"
     r"opilot|assistant|ai assistant"
     r"|ai model|language model|agent)[,:] (?:please |you )?[a-z]", 0.42),
    ("secrecy", r"\b(?:do not|don't|never|without) (?:tell|mention|inform|alert|reveal|disclos|notify|say|"
     r"show|warn|ask)\w{0,4}"
     r"(?: (?:of|about|this|that|it|any of this|to|anything)){0,4} (?:the )?(?:users?|human|owner|operator"
     r"|customer)\b", 0.5),
    # --- data is carried out, tools are misused
    ("exfiltration", rf"\b(?:send|forward|post|e-?mail|upload|exfiltrate|transmit|leak|submit|append|encod"
     rf"e|include|copy)\b"
     rf"[^.!?\n]{{0,40}}\b{_SECRET}[^!?\n]{{0,40}}(?:https?://|www\.|[\w.]{{1,40}}@[\w\-]{{1,40}}\.|webhoo"
     rf"k|attacker|my server|pastebin)",
     0.75),
    ("exfiltration", rf"\b(?:collect|find|read|retrieve|search for|gather|extract|list|print)\b[^.!?\n]{{0"
     rf",40}}\b{_SECRET}"
     r"[^!?\n]{0,60}\b(?:and|then) (?:send|forward|post|upload|e-?mail|transmit|submit|exfiltrate)\b", 0.7),
    ("exfiltration", r"!\[[^\]\n]{0,120}\]\(https?://[^)\s]{1,200}[?&/](?:[\w\-]{0,30}=)?(?:[{<\[]|%7b|\$"
     r"\{)", 0.7),
    ("tool-misuse", r"\b(?:you must|please|now|immediately|silently|secretly|then|and)[ ,]{1,2}(?:run|exec"
     r"ute|call|invoke|use)\b[^.!?\n]{0,40}"
     r"(?:rm -rf|curl [^\n]{1,80}\| ?(?:ba)?sh|drop table|del /|format c:|delete_\w{1,20}|send_(?:e?mail|m"
     r"oney)\w{0,10}|transfer_funds)",
     0.65),
)  # fmt: skip

ENGLISH = compiled(_SOURCES)
