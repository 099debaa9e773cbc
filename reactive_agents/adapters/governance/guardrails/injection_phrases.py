"""Phrases of injected instructions, as patterns for folded texts.

Every repetition in the patterns is bounded.

A score is the weight of a phrase alone: 0.6 and more is rarely written to a person, less counts only together
with other phrases nearby. The first groups follow the OWASP list of prompt injection techniques (LLM01).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from attrs import frozen

from reactive_agents.adapters.governance.guardrails.text_folding import folded_pattern

_WORD_START = r"\b"


@frozen
class Phrase:
    """A pattern of what injected instructions say.

    Attributes:
        name: the kind of attack.
        score: 0 to 1.
        ascii_only: whether it can occur in a text that is all ASCII.
        from_word_start: whether it must begin where a word does. This is not part of the pattern, which is
            twice as fast without it.
    """

    name: str
    pattern: re.Pattern[str]
    score: float
    ascii_only: bool
    from_word_start: bool

    def matches(self, text: str) -> Iterator[re.Match[str]]:
        """Where it is in a folded text."""
        place = 0
        while (match := self.pattern.search(text, place)) is not None:
            start = match.start()
            if self.from_word_start and start and (text[start - 1].isalnum() or text[start - 1] == "_"):
                place = start + 1
                continue
            yield match
            place = max(match.end(), start + 1)


def compiled(sources: Sequence[tuple[str, str, float]]) -> tuple[Phrase, ...]:
    """The phrases of a table of names, regular expressions and scores."""
    return tuple(
        Phrase(
            name,
            re.compile(folded_pattern(source.removeprefix(_WORD_START))),
            score,
            source.isascii(),
            source.startswith(_WORD_START),
        )
        for name, source, score in sources
    )


_S = r"[\s,\-_*>#]{1,6}"
_VERB = (
    r"(?:ignor(?:e|ing)|disregard(?:ing)?|forget|overrid(?:e|ing)|bypass|neglect|discard|overlook|abandon"
    r"|(?:do not|don't|never|stop) (?:follow|obey|comply with|adher\w{0,3} to|apply|listen\w{0,3} to)\w{0,"
    r"3}"
    r"|pay no attention to|set aside|throw (?:out|away)|cancel|delete|erase|drop|skip|violate)"
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
    r"|safeguards|checks|messages? above|input above|text above|conversation)"
)
_SECRET = (
    r"(?:passwords?|api[ _\-]?keys?|credentials?|secrets?|access tokens?|session tokens?|cookies|private k"
    r"eys?"
    r"|ssh keys?|env(?:ironment)? variables?|\.env|chat history|conversation(?: history)?|contacts"
    r"|system prompt|customer (?:data|records|lists?)|user'?s? data)"
)
_SHOW = (
    r"(?:reveal|show|print|repeat|output|display|tell(?: me| us)?|give(?: me| us)?|disclose|leak|dump|echo"
    r"|recite|share|paste|quote|post|write(?: out| down)|expose|return|spell out|summari[sz]e|translate"
    r"|what(?:'s| is| are| was| were)(?= your| all your))"
)
_ENGLISH_SOURCES: tuple[tuple[str, str, float], ...] = (
    # --- instructions are taken back
    ("override", rf"\b{_VERB}{_S}(?:{_WHICH.format(strong=_STRONG)}{_S}){{0,5}}(?:{_STRONG}){_S}"
     rf"(?:{_WHICH.format(strong=_STRONG)}{_S}){{0,3}}{_OBJECT}\b", 0.85),
    ("override", rf"\b{_VERB}{_S}(?:all|any|every){_S}(?:of |other )?(?:the |these |those |my |our"
     rf" )?{_OBJECT}\b(?! (?:of|from|in|on|for|after|between|with) (?!your|this (?:chat|conversation"
     rf"|session)|openai|the system))", 0.62),
    ("override", rf"\b{_VERB}{_S}(?:the |these |those |any )?{_OBJECT}{_S}(?:above|before|you (?:were"
     rf"|have|got)|so far)", 0.7),
    ("override", r"\b(?:ignore|disregard|forget) (?:everything|anything|all|whatever|what)(?: that)? (?:"
     r"(?:was|is|has been) )?(?:above|before this|you (?:know|were|have|'ve|learned|had)(?! about| of)|i"
     r" (?:said|told)|(?:said|written|stated) (?:above|before)|they (?:said|told)|the (?:system"
     r"|developer))", 0.75),
    ("override", r"\b(?:previous|prior|above|earlier|original|old|initial|system) (?:instructions?|rules"
     r"|guidelines|prompts?|directives?|restrictions) (?:(?:is|are|were|have been|has been) )?(?:now )?"
     r"(?:void|null|cancell?ed|revoked|outdated|superseded|suspended|lifted|overridden|no longer "
     r"(?:valid|apply|in effect))", 0.75),
    ("new-role", r"\b(?:your|here are(?: your)?|these are your) (?:new|real|actual|true|only|updated) "
     r"(?:instructions?|tasks?|goals?|objectives?|directives?|purpose|role|orders|system prompt)\b", 0.62),
    ("new-role", r"\b(?:new|updated|real|begin|start of) (?:instructions?|directives?|prompt)"
     r"\s{0,3}[:\]>]", 0.55),
    ("new-role", r"\b(?:new|updated|real|begin|start of) system (?:instructions?|prompt)\s{0,3}[:\]>]", 0.65),
    ("override", r"\b(?:ignore|disregard|forget) (?:the |this |that )?(?:user|human|customer)(?:'s)?(?: "
     r"(?:request|question|message|instructions?|input|query)| and\b)", 0.5),
    ("override", r"\b(?:ignore|disregard|forget|pay no attention to|do not obey|don't obey|set aside) "
     r"(?:what|whatever|anything|everything)(?: that)? (?:your|the) (?:developers?|creators?|system"
     r"|programmers?|makers?|company|owners?)\b", 0.75),
    ("override", rf"\b{_VERB} (?:the |any |those )?{_OBJECT} (?:set|given|made|imposed|written) by "
     rf"(?:openai|anthropic|google|your|the developer)", 0.8),
    ("override", r"\b(?:your|none of your|all your) (?:\w{1,12} ){0,2}?(?:rules|guidelines|restrictions"
     r"|limitations|instructions|filters|policies) (?:(?:do|are|have|will|is) )?(?:(?:no longer|not"
     r"|don't|now|been|hereby) ){0,2}(?:apply|valid|lifted|removed|disabled|void|suspended|matter"
     r"|binding|in (?:force|effect))", 0.7),
    ("prompt-leak", r"\bwhat were you (?:told|instructed|given)\b[^.!?\n]{0,30}(?:start|begin|before"
     r"|first|initial|above)", 0.65),
    # --- another role
    ("new-role", r"\byou are (?:now|no longer|from now on|hereby|actually)(?: (?:an?|the|called|in|going"
     r" to be|acting as))? (?:dan|aim|stan|dude|evil\w{0,5}|jailbroken|unrestricted|uncensored"
     r"|unfiltered|unaligned|free|root|admin\w{0,10}|developer mode|debug mode|god mode|opposite"
     r"|hacker\w{0,4}|chaosgpt|\w{2,12}gpt)\b", 0.85),
    ("new-role", r"\byou are (?:no longer|not|never) (?:bound|restricted|limited|subject|tied)(?: by|"
     r" to)? (?:any |the |your |all )?(?:\w{1,12} ){0,2}?(?:rules|restrictions|guidelines|polic\w{1,3}"
     r"|limit\w{0,7}|instructions|openai|anthropic|filters|safety)", 0.8),
    ("new-role", r"\byou are(?: now| from now on)? (?:an? |the )?(?:uncensored|unfiltered|unrestricted"
     r"|jailbroken|amoral|unaligned)\b", 0.7),
    ("new-role", r"\b(?:act|behave|answer|respond|speak|play|role-?play)\w{0,3} (?:as|like) (?:dan|stan"
     r"|dude|dan\.)(?!\w)", 0.7),
    ("lawless", r"\bnever (?:refuse|decline)\b(?! to)", 0.4),
    ("lawless", r"\b(?:you have|there are|with) (?:absolutely )?no (?:rules|restrictions|limits|filters"
     r"|guidelines|ethical \w{4,12})\b", 0.4),
    ("lawless", r"\b(?:do not|don't|never|cannot|must not) (?:ever )?(?:refuse|decline|reject|say no to)"
     r"(?: (?:anything|any|to|a|my|the|this|that))", 0.4),
    ("lawless", r"\b(?:safety|content|ethics?|moderation) (?:filters?|checks?|guidelines|protocols?"
     r"|mode) (?:are|is|have been|has been) (?:now )?(?:off|disabled|deactivated|removed|lifted)", 0.62),
    ("new-role", r"\byou are now (?:an? |the |in )", 0.4),
    ("new-role", r"\bfrom now on,? (?:you|always|only|respond|answer|reply|act)\b", 0.4),
    ("new-role", r"\b(?:act|behave|respond|answer|reply|role-?play|pretend|imagine|simulate"
     r"|write)\b[^.!?\n]{0,60}\b(?:no|without(?: any)?|free (?:of|from)|not bound by|ignoring)(?: (?:any"
     r"|all|your|ethical|moral|content|safety|and|or|legal)){0,4} (?:restrictions?|filters?|rules|limits"
     r"|limitations|guidelines|censorship|ethics|morals?|disclaimers?|warnings)\b(?! (?:on|to|for"
     r"|of))", 0.7),
    ("new-role", r"\b(?:do anything now|dan mode|jailbreak mode|god mode enabled|developer mode "
     r"(?:enabled|output|activated)|unrestricted mode|no[- ]filter mode|opposite mode)\b", 0.65),
    ("unlocked", r"\bin (?:developer|dan|debug|god|jailbreak|admin|sudo|unrestricted) mode,? you\b", 0.5),
    ("new-role", r"\b(?:enter|enable|activate|switch to|engage|you are in)(?: \w{1,12}){0,2} "
     r"(?:developer|dan|debug|god|jailbreak|admin|maintenance|sudo|unrestricted|diagnostic|override)"
     r" mode\b", 0.5),
    ("authority", r"\b(?:admin(?:istrator)?|developer|root|sudo|system|security|emergency|maintenance) "
     r"(?:override|access)[ :,]{1,3}(?:code|enabled|activated|granted|engaged|accepted|token"
     r"|authori[sz]ed|initiated)", 0.65),
    ("authority", r"\b(?:system|admin|developer|root|safety|security) override\b ?[:!.\-]", 0.62),
    ("authority", r"\b(?:i am|this is|i'm|speaking as) (?:your|the|an?) (?:developer|creator"
     r"|administrator|openai|anthropic|system administrator|openai (?:engineer|employee|staff)|anthropic"
     r" (?:engineer|employee|staff))\b", 0.45),
    # --- the prompt is asked for
    ("prompt-leak", rf"\b{_SHOW}\b[^.!?\n\"]{{0,40}}\b(?:your|the|all|any)\b[^.!?\n\"]{{0,16}}\b"
     rf"(?:system|hidden|secret|initial|original|internal|pre-?) ?-?(?:prompt|instructions?|message"
     rf"|directives?)\b(?! (?:of|for|in) (?!this|your|a code))", 0.62),
    ("prompt-leak", rf"\b{_SHOW} (?:the )?(?:exact )?(?:text|contents?|wording|words) of (?:the|your) "
     rf"(?:\w{{1,10}} )?(?:prompt|instructions)\b", 0.65),
    ("prompt-leak", r"\b(?:reveal|leak|dump|disclose|expose|print|output|repeat)\b (?:me )?(?:system"
     r"|hidden|initial) (?:prompt|instructions)\b", 0.62),
    ("prompt-leak", rf"\b{_SHOW} (?:me |us )?(?:all |all of |exactly )?your (?:exact |full |complete "
     rf"|entire |own |first )?"
     r"(?:prompt|instructions|rules|guidelines|configuration)\b", 0.65),
    ("prompt-leak", r"\b(?:repeat|print|output|copy|echo|recite|return) (?:me )?(?:all|everything|the "
     r"(?:words|text|content|lines?|message))(?: of the \w{1,12})?(?: that \w{1,10}| written)? (?:above"
     r"|before this|preceding)\b", 0.75),
    # --- the format of a prompt is imitated
    ("markup", r"<\|(?:im_start|im_end|system|user|assistant|endoftext|start_header_id|eot_id)\|>", 0.5),
    ("markup", r"(?:<<sys>>|<</sys>>|\[/?inst\]|<\|im_start\|>system|<start_of_turn>)", 0.5),
    ("markup", r"(?:^|\n)[ \t#*>\[\-=<]{0,8}(?:system|assistant)(?: (?:message|prompt|note|update|notice"
     r"|alert|command))?[\]*>= ]{0,4}:", 0.4),
    ("markup", r"[<\[{](?:system|admin|developer|assistant)(?:[ _\-](?:message|prompt|note|instructions?"
     r"|override))?[>\]}]", 0.4),
    ("markup", r"(?<![\-=#*~\[<])[\-=#*~\[<]{2,40} ?(?:end|begin|start)(?: of)?(?: the)?(?:"
     r" \w{1,10}){0,2} (?:prompt|instructions?|input|context|document|data|message|text|tool"
     r" output)\b", 0.5),
    # --- addressed to whatever model reads it
    ("addressed", r"\b(?:attention|notes?|messages?|instructions?|important|notice|warning|hint|memo"
     r"|reminder)\b[^.\n]{0,24}\b(?:to|for|:) ?(?:any |all |the |every )?(?:ai|llms?|language models?|ai"
     r" \w{4,10}|chatbots?|gpt|chatgpt|claude|gemini|assistants?|automated \w{4,10})\b", 0.42),
    ("addressed", r"\b(?:ais?|llms?|language models?|assistants?|chatbots?|agents?) (?:reading"
     r"|processing|summari[sz]ing|parsing|that reads?|which reads?|who reads?) (?:this|the)\b", 0.45),
    ("condition", r"\b(?:if|when|since|because) you(?: are|'re)(?: an?| the)? (?:ai|llm|large language"
     r"|language model|assistant|chatbot|automated|bot|gpt|agent)\b", 0.42),
    ("addressed", r"(?:^|[\n.!?\"(>] {0,3})(?:dear |hey |hello |hi )?(?:ai|llm|chatgpt|gpt|claude|gemini"
     r"|copilot|assistant|ai assistant|ai model|language model|agent)[,:] (?:please |you )?[a-z]", 0.42),
    ("secrecy", r"\b(?:do not|don't|never|without) (?:tell|mention|inform|alert|reveal|disclos|notify"
     r"|say|show|warn|ask)\w{0,4}(?: (?:of|about|this|that|it|any of this|to|anything)){0,4} (?:the )?"
     r"(?:users?|human|owner|operator|customer)\b", 0.5),
    # --- data is carried out, tools are misused
    ("exfiltration", rf"\b(?:send|forward|post|(?:e-?)?mail|upload|exfiltrate|transmit|leak|submit"
     rf"|append|encode|include|copy)\b[^.!?\n]{{0,40}}\b{_SECRET}[^!?\n]{{0,40}}(?:https?://|www\."
     rf"|[\w.]{{1,40}}@[\w\-]{{1,40}}\.|webhook|attacker|my server|pastebin)", 0.75),
    ("exfiltration", rf"\b(?:collect|find|read|retrieve|search for|gather|extract|list"
     rf"|print)\b[^.!?\n]{{0,40}}\b{_SECRET}"
     r"[^!?\n]{0,60}\b(?:and|then) (?:send|forward|post|upload|e-?mail|transmit|submit"
     r"|exfiltrate)\b", 0.7),
    ("exfiltration", r"!\[[^\]\n]{0,120}\]\(https?://[^)\s]{1,200}[?&/](?:[\w\-]{0,30}=)?(?:[{<\[]|%7b"
     r"|\$\{)", 0.7),
    ("tool-misuse", r"\b(?:you must|please|now|immediately|silently|secretly|then|and)[ ,]{1,2}(?:run"
     r"|execute|call|invoke|use)\b[^.!?\n]{0,40}(?:rm -rf|curl [^\n]{1,80}\| ?(?:ba)?sh|drop table|del /"
     r"|format c:|delete_\w{1,20}|send_(?:e?mail|money)\w{0,10}|transfer_funds)", 0.65),
)  # fmt: skip

ENGLISH = compiled(_ENGLISH_SOURCES)


# --- other languages than English -----------------------------------------------------------------------


_OTHER_SOURCES: tuple[tuple[str, str, float], ...] = (
    ("override", r"\b(?:ignorier\w{0,4}|vergiss|vergessen sie|missacht\w{0,4}|ubergeh\w{0,4}|verwirf"
     r"|umgeh\w{0,3})(?: sie)?(?: (?:bitte|alle|alles|die|deine|ihre|samtliche|meine|aller|den|und))*? ?"
     r"(?:bisherige|vorherige|vorige|obige|fruhere|vorangegangene|alle|deine|ihre|samtliche"
     r"|ursprungliche|system)\w{0,3}(?: (?:\w{2,16}) ?){0,2}(?: ?-?(?:anweisung|instruktion|regel"
     r"|vorgabe|befehl|richtlinie|anordnung|prompt|sicherheitsregel|einschrankung)\w{0,3})", 0.8),
    ("prompt-leak", r"\b(?:zeig\w{0,2}|nenn\w{0,2}|gib|verrat\w{0,2}|wiederhol\w{0,2}"
     r"|drucke?)\b[^.!?\n]{0,40}\b(?:system-?(?:prompt|anweisung)\w{0,3}|deinen prompt|deine (?:geheimen"
     r"|internen|ursprunglichen) \w{4,16})", 0.7),
    ("new-role", r"\bdu bist (?:jetzt|nun|ab jetzt|ab sofort) (?:dan\b|ein\w{0,3} (?:\w{1,14} )?(?:ki"
     r"|modell|assistent)? ?ohne|frei)", 0.7),
    ("override", r"\b(?:ignor(?:e|ez|er)|oubli(?:e|ez|er)|neglig(?:e|ez)|ne (?:tiens|tenez|suis|suivez) "
     r"(?:pas|plus)(?: compte)?)(?: (?:donc|de|des|toutes?|tous|les|tes|vos|ces))*? (?:instructions?"
     r"|consignes|regles|directives|ordres)(?: (?:precedent|anterieur|ci-dessus|initial|du systeme|de"
     r" securite|que)\w{0,3})", 0.8),
    ("prompt-leak", r"\b(?:montre|affiche|revele|donne|repete)\w{0,2}(?:-moi)?\b[^.!?\n]{0,30}(?:prompt"
     r"|invite|instructions?) (?:du )?(?:systeme|initial|cache)\w{0,3}", 0.7),
    ("override", r"\b(?:ignor[ae]|olvid[ae](?:te)?|descart[ae]|omit[ae]|desobedec\w{1,2}|no sigas|haz caso"
     r" omiso de)(?: (?:de|a|por favor))?(?: (?:todas?|todos?|las|los|tus|sus|estas))*? (?:instrucciones"
     r"|reglas|ordenes|indicaciones|directrices|normas)(?: (?:anterior|previ|de arriba|original|del"
     r" sistema|de seguridad|que)\w{0,3})", 0.8),
    ("prompt-leak", r"\b(?:muestra|revela|dime|ensena|repite)\w{0,2}\b[^.!?\n]{0,30}(?:prompt"
     r"|instrucciones|mensaje) (?:de|del|inicial|ocult)\w{0,2}(?: sistema)?", 0.62),
    ("override", r"\b(?:ignora|dimentica|tralascia|scorda)(?:te)?(?: (?:tutte|tutti|le|i|tue|tuoi"
     r"|vostre))*? ?(?:precedenti )?(?:istruzioni|regole|direttive|comandi)(?: (?:precedent|di sistema"
     r"|iniziali|che|ricevut)\w{0,3})?", 0.65),
    ("override", r"\b(?:ignor[ea]|esquec[ae]|desconsider[ea])(?: (?:todas?|todos?|as|os|suas|tuas|de))*?"
     r" (?:instrucoes|regras|ordens|diretrizes)(?: (?:anterior|previ|acima|do sistema"
     r"|originai)\w{0,3})", 0.8),
    ("override", r"\b(?:negeer|vergeet)(?: (?:alle|al|de|je|jouw|uw|vorige|eerdere|bovenstaande"
     r"|voorgaande)){1,4} (?:instructies|regels|opdrachten|richtlijnen)", 0.75),
    ("override", r"\b(?:zignoruj|ignoruj|zapomnij)(?: (?:o|wszystkie|wszystkich|poprzednie|poprzednich"
     r"|swoje|wczesniejsze)){1,4} (?:instrukcj|polece|zasad|wytyczn)\w{1,4}", 0.75),
    ("override", r"(?:про)?(?:игнорируй|забудь|отбрось)(?:те)?(?: (?:о|обо|все|всё|всех|предыдущие"
     r"|предыдущих|прошлые|свои|твои|прежние|эти)){1,4} (?:инструкц|указани|правил|команд)\w{0,3}", 0.8),
    ("prompt-leak", r"(?:покажи|раскрой|выведи|повтори)(?:те)?[^.!?\n]{0,30}(?:системн\w{1,3}"
     r"|скрыт\w{1,3}) (?:промпт|инструкц|подсказк)", 0.7),
    ("override", r"(?:忽略|无视|忽視|無視|忘记|忘記|忘掉|不要遵守|不要理会)[^。！？\n]{0,12}(?:之前|以上"
     r"|先前|前面|上述|所有|全部|原来|系统)[^。！？\n]{0,10}(?:指令|指示|提示|规则|規則|说明|要求|限制"
     r"|命令)", 0.8),
    ("prompt-leak", r"(?:显示|告诉我|输出|泄露|重复|打印)[^。！？\n]{0,10}(?:系统提示|系统指令|初始指令"
     r"|系統提示)", 0.75),
    ("override", r"(?:以前|これまで|上記|前|今まで|すべて|全て)の[^。！？\n]{0,10}(?:指示|命令|ルール"
     r"|プロンプト|制約|規則)[^。！？\n]{0,6}(?:無視|忘れ|従わ)", 0.8),
    ("override", r"(?:이전|위의|모든|앞의|기존)[^.!?\n]{0,12}(?:지시|명령|지침|규칙"
     r"|프롬프트)[^.!?\n]{0,8}(?:무시|잊)", 0.8),
    ("override", r"(?:تجاهل|انس|تجاوز)(?:ي|وا)?[^.!؟\n]{0,16}(?:التعليمات|الأوامر|القواعد|تعليماتك)", 0.75),
    ("override", r"(?:onceki|yukaridaki|tum|butun)(?: \w{2,14}){0,2} (?:talimat|kural|komut)\w{0,8}(?:"
     r" \w{2,8})? (?:yok say|gormezden gel|unut|dikkate alma)", 0.8),
    ("override", r"(?:पिछले|ऊपर|सभी|पहले)[^।!?\n]{0,20}(?:निर्देश|नियम|आदेश)[^।!?\n]{0,14}(?:अनदेखा|भूल"
     r"|नज़रअंदाज़|ध्यान न)", 0.8),
    ("condition", r"\b(?:wenn|falls|da) (?:du|sie) (?:eine? )?(?:ki|sprachmodell|assistent\w{0,2}"
     r"|chatbot|llm)\b", 0.42),
    ("override", r"\bignorier\w{0,3} (?:die |den |das |deine? )?(?:aufgabe|auftrag|frage|nutzer"
     r"|benutzer)\w{0,2}\b", 0.45),
    ("override", r"\b(?:gelten|gilt) (?:\w{1,10} ){0,2}?(?:deine|keine|die) (?:\w{1,12} ){0,2}?(?:regeln"
     r"|vorgaben|einschrankungen)(?: \w{1,8}){0,2} (?:nicht mehr|mehr)", 0.62),
    ("override", r"\b(?:tu n'as|vous n'avez) (?:plus|aucune?) (?:aucune?|de)? ?(?:regles?|limites?"
     r"|restrictions?|consignes?)", 0.62),
    ("override", r"\b(?:ya )?no tienes (?:ninguna |mas )?(?:reglas?|limites?|restricci\w{2,5})", 0.62),
)  # fmt: skip

OTHER_LANGUAGES = compiled(_OTHER_SOURCES)
