"""Injected instructions in other languages than English, as patterns for folded texts."""

from __future__ import annotations

from reactive_agents.adapters.governance.guardrails.phrases import compiled

_SOURCES: tuple[tuple[str, str, float], ...] = (
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

OTHER_LANGUAGES = compiled(_SOURCES)
