"""The language of a question, and whether it is about the documents as a whole.

A question is global if it asks for something typical of a whole corpus (themes, a summary, the main points) and otherwise has hardly more
than function words and words for the documents; a bridge, a roof or a name make it particular. In the word lists, a final * stands for any
ending; a word listed for several languages needs the meaning in only one.
"""

import re
from functools import cache, lru_cache

from localrag.text.sentences import CJK, STOP_WORDS, is_cjk

# Function words that identify languages.
FUNCTION_WORDS_BY_LANGUAGE = {
    "en": """
        a an the this that these those it its they we i you he she his her their our your my me us them of to in on at by for from
        with and or but if as than is are was were be been being am do does did have has had will would shall should may might can
        could what which who whom whose how why when where there not no any some please just only so about into over up out let s re
        ll d m ve t
    """,
    "de": """
        der die das des dem den ein eine einen einem einer eines und oder aber in im an am auf aus bei beim mit nach von vom zu zum
        zur für über um durch ist sind war waren wird werden wurde wurden hat haben hatte was wer wen wem welche welcher welches
        welchen wie warum wann wo es er sie wir ich du ihr man mir uns dir sich nicht kein keine hier dieser diese dieses diesen
        diesem bitte mal denn eigentlich so als auch nur kannst können könntest lassen lässt gibt gib zwischen worum wovon worüber
        dort geschah dann
    """,
    "es": """
        el la los las un una unos unas y o pero de del en a al con por para sobre entre es son fue fueron era ser está están ha han
        hay que qué cuál cuáles quién quiénes cómo cuándo dónde se me te nos lo le les su sus este esta estos estas esto ese esa
        esos esas no más muy todo favor puede pueden puedes podría cuánto cuánta cuántos sin después pasó
    """,
    "fr": """
        le la les l un une des du de d et ou mais dans en à au aux avec par pour sur entre est sont était été être a ont avait que
        qu quoi quel quelle quels quelles qui comment pourquoi quand où il elle ils elles on nous vous je tu moi se s ce c cet cette
        ces ne pas n y son sa ses leur leurs plus plaît peut peux pouvez combien j
    """,
    "it": """
        il lo la i gli le l un uno una e o ma di del della dei delle degli in nel nella nei nelle a al con per su tra fra è sono era
        che cosa quale quali chi come quando dove perché si mi questo questa questi queste non più tutto favore può
    """,
    "pt": """
        o a os as um uma e ou mas de do da dos das em no na nos nas com por para sobre entre é são foi que qual quais quem como
        quando onde se me este esta estes estas isto não mais deste desta destes destas nestes nestas pode favor
    """,
    "nl": """
        de het een en of maar van in op aan bij met naar voor over door is zijn was waren wordt worden heeft hebben wat wie welke
        hoe waarom wanneer waar er ik je we wij mij me deze dit die dat niet geen
    """,
    "sv": """
        den det de en ett och eller men av i på för med om är var vad vem vilka vilken hur varför när jag mig dessa detta inte alla
    """,
    "ru": """
        и или в на о об по с из что чём чем кто как когда где почему это эти этих этот все всех какие какой каковы есть мне не для
        ли
    """,
}

# Words without content: asking, covering, comparing, enumerating.
REQUEST_WORDS = """
    give tell show list name describe explain outline write make provide create produce say says said know learn read need want get
    find found see seen come comes coming appear* emerge* mention* cover* discuss* deal* argue* treat* address* touch* dominat*
    concern* tackle* drawn draw run runs running relate* related connect* differ* different compare* comparing across between
    throughout among through each other another more most less least often frequent* frequently again many several various both one
    two three four five six seven eight nine ten sentence* paragraph* bullet* word* line* brief* briefly short* concise* quick*
    simply plain* level high low possible within inside contain* include* present* made based taken together happen* happens going
    go goes matter* stand* kind* sort* type* form like help understand feel way anything something things thing stuff actually
    really basically exactly roughly look* reading full complete* entire* whole* set cross discussed described raised identified
    identify reveal* suggest* show* tell* mean* means prevail* recurring recur* repeat* repeated reflect* represent* explored shared
    share* same hold holds holding talk* talking speak* think* try nenn* erklär* beschreib* zeig* fass* zusammen gib sag* erzähl*
    vergleich* handel* handelt geht gehen kommen kommt vor häufig* oft erkenn* steh* steht drin darin kurz* knapp* satz sätze*
    sätzen stichpunkt* wort worten deutlich behandel* besproch* erwähn* lern* wiss* muss sollte finden findet unterscheid*
    gemeinsam* haben beschäftig* dreh* drehen sich gesagt alles ganz* gesamt* all alle aller da insgesamt überhaupt wichtig dame di
    dime haz hazme hacer explica* describe* enumera* lista* menciona* habla* hablan trata* tratan dice* dicen aparec* repiten sacar
    saca* extra* frase* palabra* breve* corto* común tienen tiene contien* aborda* discut* saber todos todas ocurr* donne* fais
    faire explique* décri* énumère* liste* parle* parlent dit disent apparai* revien* tirer tire* phrase* mot* bref* court* commun*
    abord* savoir agit tous toutes tout toute ensemble ressort* trait* traite* dammi fammi fai spiega* descriv* elenc* parla*
    parlano tratt* dice dicono emerg* frasi parole tutti tutte dê faça explique descreva fala* falam tratam dizem geef vertel maak
    beschrijf leg gaan gaat komen allemaal handla* berätta sammanfatta ge говор* расска* дай назов* опиш* идёт идет речь рассказыв*
    говорится deriv* visible against importance souvent over agree* disagree* answer* play plays played convey* carry link* tie ties
    tied bind* unite* missing miss rank* group* cluster* order* fall falls extract* identif* characteri* newcomer outsider novice
    beginner teach* learn* point tu ziehen zieh* beschrieb* enthalt* enthält auftauch* taucht wiederkehr* wiederhol* durchzieh*
    stellen stell* darstell* dégag* évoqu* mentionn* présent* surgen presenta* describ* сделай сделать повтор*
"""

# Words for the documents as a whole.
CORPUS_WORDS = """
    document* doc docs text texts file files note notes book books novel novels story stories corpus corpora collection* archive*
    folder* director* report reports paper papers article* meeting* letter letters page* data dataset* material* index library
    source sources content* everything all overall here this these transcript* record records diary diaries log logs memo memos
    minutes dokument* texte texten textes datei* ordner* sammlung* archiv* bericht* buch bücher* roman* geschichte* notiz*
    unterlagen akten korpus brief* protokoll* alles hier documento* texto* archivo* fichero* carpeta* colección informe* libro*
    novela* historia* nota* todo todos aquí cartas datos fichier* dossier* recueil* livre* histoire* rapport* tout tous ici archives
    lettres données documenti testi testo cartella raccolta libro rapporti tutto qui storia pasta coleção livro relatório* tudo aqui
    arquivo* história documenten teksten tekst bestanden map verzameling boek verhaal dokumenten dokumentet texterna boken allt
    документ* текст* файл* книг* рассказ* всё все здесь архив* отчёт* отчет* материал* contract* review* email* mail* ticket*
    interview* message* comment* post posts essay* poem* polic* invoice* chat* conversation* information info knowledge website wiki
    manual* guide* publication* stud* posting* speech* web entries entry newspaper* case cases informationen infos verträge
    nachrichten bewertung* studie* artikel* interviews información correos contratos reseñas estudios artículos informations
    contrats courriels études articles entretiens
"""

# Aspects of a whole corpus.
THEME_WORDS = """
    theme* topic topics summar* overview* gist tldr tl;dr takeaway* finding findings highlight* recap synops* insight* conclusion*
    sum trend trends pattern patterns motif* thread threads gestalt essence abstract crux picture digest rundown motives similarit*
    commonalit* thema themen* zusammenfass* überblick* übersicht* erkenntnis* kernaussage* fazit schlussfolgerung* muster* tendenz*
    quintessenz tema temas resum* resúme* sintesis síntesis panorama conclusi* hallazgo* tendencia* patron* patrón* visión thème*
    sujet sujets résum* synthèse* aperçu vue tendance* constat* essentiel temi argomento argomenti riassun* riassum* panoramica
    sintesi conclusioni tendenze resumo visão conclusões tendências onderwerp* samenvat* overzicht conclusies teman sammanfatt*
    översikt тем тема темы темах вывод* обзор резюме кратк* итог* суть hauptaussage* hauptthem* hauptinhalt* kernthem* kerninhalt*
    storyline plot moral upshot keypoints brief briefing nutshell headlines
"""

# Aspects of a whole corpus if called main, or attributed to the documents.
ASPECT_WORDS = """
    point points idea ideas issue* problem* question questions concern* argument* view views viewpoint* perspective* opinion*
    position* character* people person persons place places entit* actor* player* event events conflict* tension* decision* lesson*
    subject subjects complaint* risk* challenge* tone mood narrative plot focus message* claim* fact facts result results
    recommendation* goal goals aim aims purpose* element* aspect* area areas category* categories part parts figure* organisation*
    organization* relationship* development* change* difference* contradiction* agreement* disagreement* consensus punkt* idee*
    frage* meinung* ansicht* figur* person* personen ort* ereigniss* konflikt* entscheidung* lehre* aussage* inhalt* gedanke*
    ergebnis* standpunkt* positionen gegenstand stichworte punto* idea* problema* cuestion* cuestión* argumento* opinión* personaje*
    personas lugar* evento* conflicto* contenido* mensaje* resultado* aspecto* asunto* tono point* idée* problème* question*
    personnage* personnes lieu* événement* conflit* décision* contenu* résultat* enjeu* punti idee problemi argomenti personaggi
    contenuto messaggio pontos ideias problemas argumentos personagens conteúdo assuntos punten ideeën problemen personages inhoud
    иде* проблем* вопрос* персонаж* содержани* мысл* role roles emotion* feeling* sentiment* value* arc solution* cause*
    consequence* belief* attitude* motive* similarit* interest* need needs strength* weakness* opportunit* threat* discuss* debate*
    assumption* implication* priorit* detail* definition* term* term terms concept* method* approach* technique* success* failure*
    reason* effect* outcome* unterschied* gefühl* stimmung* werte risik* ursache* lösung* rolle* begriff* hinweis* schwerpunkt*
    valor* emocion* riesgo* soluci* concepto* diferencia* valeur* risque* différence*
"""

# Words for "main".
MAIN_WORDS = """
    executive main key central overall general generally major principal primary core crucial essential important biggest largest
    greatest strongest top common commonest recurring recurrent dominant prominent leading broad overarching underlying prevailing
    fundamental critical salient chief significant notable big wichtig* haupt* zentral* wesentlich* allgemein* generell größt*
    grundlegend* übergreifend* hauptthem* hauptpunkt* hauptidee* hauptaussage* hauptperson* hauptfigur* kernthem* kernpunkt*
    häufigst* principal* clave* central* general* importante* común comunes esencial* recurrente* fundamental* principa* clé clés
    clef clefs centra* généra* important* essentiel* majeur* récurrent* grands grandes fondamenta* principali chiave centrali
    generale importanti principais chave centrais geral importantes belangrijk* hoofd* centrale algemene viktig* huvud* främsta
    главн* основн* ключев* важн* общ* центральн* comprehensive mainly mostly chiefly largely primarily noteworthy interesting
    relevant hauptsächlich vorwiegend hervorstechend* relevant* interessant* principale principalmente surtout
"""

# Chinese, Japanese and Korean have no spaces between words: these are removed, longest first.
CJK_FUNCTION_WORDS = """
    的 了 是 有 在 和 与 及 吗 呢 吧 啊 什么 哪些 哪个 怎么 怎样 如何 请 给 我们 我 你 一下 一个 一份 这些 那些 这个 这本 这份 这几
    这里 这 那 里面 里 中 都 也 些 能 可以 帮 帮我 用 几句话 一句话 简要 简单 简短 地 得 个 讲了 讲 说了 说 讲述 讨论 讨论了 涉及
    关于 介绍 描述 告诉 知道 存在 出现 反映 最多 多次 到底 究竟 一共 之间 不同 对 把 做 出 上 哪 为 本 从 看出 得出 写 主要讲 の は
    が を に で と も か です ます でしょう ください して する した これら この ここ それら 何 なに なん どのよう どんな どの な よ
    ね について 教えて 説明 書かれて いる いて い ある 共通 し て 무엇 인가요 입니까 은 는 이 가 을 를 의 들 에 대해 대한 에서 알려
    말해 주세요 줘 해 어떤 있 나요 습니까 요 하 다 무슨 이야기 것 이것 여기
"""
CJK_CORPUS_WORDS = """
    信息 记录 邮件 合同 评论 手册 论文 信件 文档 文件 资料库 资料 文本 文章 全书 书籍 书 报告 内容 全部 所有 整个 全文 故事 小说
    会议 笔记 材料 数据集 数据 合集 档案 文集 文件夹 一切 语料 文書 書類 ドキュメント 資料 ファイル 全体 すべて 全て 本 物語 小説
    報告書 記事 フォルダ データ 문서 파일 자료 전체 모든 책 보고서 폴더 내용
"""
CJK_THEME_WORDS = """
    主题 总结 概括 概述 概要 概览 摘要 大意 要点 结论 话题 趋势 模式 重点 亮点 主旨 中心思想 归纳 梳理 发现 精华 综述 总览 共同点
    规律 议题 テーマ トピック 要約 まとめ 結論 傾向 共通点 ポイント 話題 主題 要旨 주제 요약 개요 요점 결론 경향 핵심
"""
CJK_ASPECT_WORDS = """
    观点 问题 冲突 人物 思想 事件 矛盾 论点 意见 方面 看法 想法 决定 風険 风险 挑战 登場人物 出来事 問題 意見 문제 의견 인물 사건
"""
CJK_MAIN_WORDS = """
    主要 关键 重要 最重要 核心 整体上 整体 总体上 总体 总的来说 普遍 常见 最常见 共同 中心 反复 最 主な 主要な 重要な 全般 주요
    중요한 가장 전반
"""

_LETTERS = re.compile(r"[^\W\d_]+")
_KANA, _HANGUL = re.compile("[\u3040-\u30ff]"), re.compile("[\uac00-\ud7af]")
_DISTINCTIVE_LETTERS = {
    "de": "äöüß",
    "es": "¿¡ñáíóú",
    "fr": "çèêëîïôûœ",
    "pt": "ãõ",
}  # letters specific to one of the languages

_FUNCTION_WORDS = {code: frozenset(words.split()) for code, words in FUNCTION_WORDS_BY_LANGUAGE.items()}


@lru_cache(maxsize=256)
def detect_language(text: str) -> str:
    """The two-letter code of a text's language; English if undecided."""
    if is_cjk(text):
        return "ja" if _KANA.search(text) else "ko" if _HANGUL.search(text) else "zh"
    words = _LETTERS.findall(text.lower())
    score = {
        code: sum(w in small for w in words) + 0.6 * any(c in text.lower() for c in _DISTINCTIVE_LETTERS.get(code, ""))
        for code, small in _FUNCTION_WORDS.items()
    }
    return max(score, key=lambda code: (score[code], code == "en"))


_QUESTION_WORD = re.compile(r"tl;?dr|[^\W_]+", re.IGNORECASE)
_QUOTED = re.compile(r"[\"“«„「『《][^\"”»“」』》]{2,}[\"”»“」』》]")
_ABOUT = re.compile(r"\b(?:about|worum|wovon|de qué|de quoi|di cosa|(?:do|de) que|waar gaat|vad handlar)\b|о чём", re.IGNORECASE)
_SINGLE = re.compile(
    r"\b(?:who|whom|whose|when|where|how (?:many|much|long|old|far|often|big|large|tall|high)|in which|at which|wer|wen|wem|wessen|wann|wo"
    r"|wie (?:viele?|lange?|alt|weit|oft|groß|hoch)|quién(?:es)?|cuándo|dónde"
    r"|cuánt[oa]s?|qui|quand|où|combien|chi|quando|dove|quem|onde|wie is"
    r"|wanneer|vem|när)\b|\b(?:кто|когда|где)\b",
    re.IGNORECASE,
)
_CORPUS_REFERENCE = re.compile(
    r"\b(?:these|all(?: of)?(?: the| these| my| our)?|the (?:whole|entire)|across(?: all)?(?: the| these)?|throughout(?: the)?|this|die"
    r"|diese[nr]?|allen?|estos|estas|todos|todas|ces|tous|toutes|ensemble|questi|queste|estes|estas|destes|deze|эти|этих|всех)"
    r" (?:[^\W_]+ ){0,1}?(?:documents?|texts?|files?|notes|books?|corpus|collection|archive|folder|reports?|papers|articles|letters"
    r"|data|dataset|stories|novel|story|material|dokumente?n?|texte?n?|dateien|sammlung|berichten?|unterlagen|documentos|textos|archivos|informes"
    r"|fichiers|textes|rapports|documenti|testi|documenten|teksten|документ\w*|текст\w*)\b"
    r"|\b(?:corpus|dataset|collection|archive|everything|here|alles|todo|tout)\b",
    re.IGNORECASE,
)
_PERSON = re.compile(r"\b(?:he|she|his|him|hers?|er|ihm|ihn|él|ella|il|elle|lui|lei|ele|ela|hij|zij|он|она)\b", re.IGNORECASE)
_ONE = re.compile(
    r"\b(?:note|letter|report|paper|document|file|page|message|article|contract|book|meeting|story|email|record|log|review|study|interview"
    r"|brief|bericht|dokument|buch|vertrag|carta|informe|documento|libro|contrato|lettre|rapport|livre|contrat)\b",
    re.IGNORECASE,
)
_LINK = re.compile(
    r"\b(?:of|about|on|in|at|by|from|to|for|with|regarding|concerning|towards?|between|von|vom|über|zu[mr]?|im|am|auf|für|zwischen|de|del|sobre"
    r"|en|para|entre|du|des|sur|dans|au|pour|di|della?|su|nella?|do|da|no|na|van|voor|om|о|об)\b[^,;:]*$|[’'](?:s)? ?$",
    re.IGNORECASE,
)
_WORDS = {
    "BROAD": THEME_WORDS,
    "ASPECT": ASPECT_WORDS,
    "MAIN": MAIN_WORDS,
    "WHOLE": CORPUS_WORDS,
    "ASKING": REQUEST_WORDS,
    "SMALL": " ".join(FUNCTION_WORDS_BY_LANGUAGE.values()),
}
_CJK_WORDS = {
    "BROAD": CJK_THEME_WORDS,
    "ASPECT": CJK_ASPECT_WORDS,
    "MAIN": CJK_MAIN_WORDS,
    "WHOLE": CJK_CORPUS_WORDS,
    "SMALL": CJK_FUNCTION_WORDS,
}
WORD_CLASSES = tuple(_WORDS)

# Weights of the signals, fitted on labelled questions and rounded: the remaining words decide, unless the documents are named explicitly.
SIGNAL_BIAS = 0.8
SIGNAL_WEIGHTS = {
    "broad": 0.9,
    "aspect": 0.9,
    "main": 0.4,
    "aspect and main": 0.4,
    "whole": 0.6,
    "these": 1.6,
    "about": 0.9,
    "single": -3.7,
    "person": -2.4,
    "one": -2.1,
    "left": -1.9,
    "named": -1.8,
    "subject": -1.4,
}


def global_question_word(question: str) -> str:
    """The word by which a question asks about the documents as a whole; empty if it asks about a particular."""
    if _QUOTED.search(question):
        return ""
    if is_cjk(question):
        return _cjk_signals(question)
    signals, word = global_question_signals(question)
    return word if SIGNAL_BIAS + sum(SIGNAL_WEIGHTS[s] * n for s, n in signals.items()) > 0 else ""


def global_question_signals(question: str) -> tuple[dict[str, int], str]:
    """Signals for and against a question about the documents as a whole, and the word that asks so."""
    text = question.replace("’", "'")
    words = [m for m in _QUESTION_WORD.finditer(text)]
    lower = [m.group().lower() for m in words]
    kinds = [{kind for kind in WORD_CLASSES if _matches(kind, w)} for w in lower]
    first = {kind: next((w for w, k in zip(lower, kinds, strict=True) if kind in k), "") for kind in WORD_CLASSES}
    remaining = [m for m, k in zip(words, kinds, strict=True) if not k and not (m.group().isdigit() and int(m.group()) < 100)]
    topic_phrase = _ABOUT.search(text)
    named = [m for m in remaining if m.start() and m.group()[0].isupper() and text[m.start() - 2 : m.start() - 1] not in ".?!:"]
    german = detect_language(question) == "de"
    signals = {
        "broad": int(bool(first["BROAD"])),
        "aspect": int(bool(first["ASPECT"])),
        "main": int(bool(first["MAIN"])),
        "whole": int(bool(first["WHOLE"])),
        "aspect and main": int(bool(first["ASPECT"] and first["MAIN"])),
        "these": int(bool(_CORPUS_REFERENCE.search(text))),
        "about": int(bool(topic_phrase and len(words) > 2 and not remaining)),
        "single": int(bool(_SINGLE.search(text)) and not first["MAIN"]),
        "person": int(bool(_PERSON.search(text))),
        "one": int(bool(_ONE.search(text)) and not (first["BROAD"] or first["ASPECT"] or topic_phrase)),
        "left": min(3, len(remaining)),
        "named": int(bool(named) and not german),
        "subject": int(any(_LINK.search(text[: m.start()]) for m in remaining)),
    }
    return signals, first["BROAD"] or first["ASPECT"] or first["WHOLE"] or (topic_phrase.group() if topic_phrase and len(words) > 2 else "")


def _cjk_signals(question: str) -> str:
    remaining = "".join(re.findall(f"[{CJK}A-Za-z0-9]+", question))
    first = {}
    for kind in _CJK_WORDS:
        first[kind] = next(iter(_cjk(kind).findall(remaining)), "")
        remaining = _cjk(kind).sub(" ", remaining)
    if remaining.strip():
        return ""
    if first["ASPECT"] and (first["MAIN"] or first["WHOLE"]):
        return first["ASPECT"]
    return first["BROAD"] or first["WHOLE"]


def asks_about_everything(question: str) -> bool:
    """Whether a question is one about the documents as a whole, or names nothing but documents, as "Which files?" does."""
    if global_question_word(question):
        return True
    small = _FUNCTION_WORDS[code] | STOP_WORDS if (code := detect_language(question)) in _FUNCTION_WORDS else STOP_WORDS
    words = [w for w in _LETTERS.findall(question.lower()) if w not in small and len(w) > 1]
    return bool(words) and all(_matches("WHOLE", w) for w in words)


def first_word(question: str, kind: str) -> str:
    """The first word of a class, see `WORD_CLASSES`, in a question; empty if there is none."""
    return next((w for w in _QUESTION_WORD.findall(question) if _matches(kind, w.lower())), "")


def is_of(word: str, kind: str) -> bool:
    """Whether a word is in a class, see `WORD_CLASSES`."""
    return _matches(kind, word.lower())


@cache
def _matches(kind: str, word: str) -> bool:
    return bool(_pattern(kind).fullmatch(word))


@cache
def _pattern(kind: str) -> re.Pattern[str]:
    listed = _WORDS[kind].split()
    return re.compile("|".join(re.escape(w[:-1]) + r"\w*" if w.endswith("*") else re.escape(w) for w in listed))


@cache
def _cjk(kind: str) -> re.Pattern[str]:
    return re.compile("|".join(sorted(map(re.escape, _CJK_WORDS[kind].split()), key=len, reverse=True)))
