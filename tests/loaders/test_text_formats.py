"""Text formats: encodings with errors in them, notebooks, Markdown, subtitles, calendars, TeX and RTF."""

import json

import pytest

from localrag.loaders.content import decode
from localrag.loaders.discover import find_files
from localrag.loaders.encodings import looks_binary
from localrag.loaders.reader import Limits, content_hash_of
from tests.conftest import mostly_ci
from tests.loaders.parsing import parsed, text_of
from tests.loaders.test_load import read, write

GERMAN = "Die Fähre gehört Jörg Müller, er übergab sie früh.\n"
RUSSIAN = "Корабль стоит в порту Мурманска, капитан на берегу.\n"
CHINESE = "王海明是海鸥号的轮机长。\n"
DECODED = {
    # Of UTF-8 with a few broken bytes the rest is read, and each of them as what it means in the encoding of such a text, else as U+FFFD.
    "a word": (GERMAN.encode() * 2 + "Grüße".encode("cp1252"), GERMAN * 2 + "Grüße"),
    "cut": ((GERMAN * 30).encode()[:-2] + b"\xc3", GERMAN * 29 + GERMAN[:-2] + "\ufffd"),
    "Cyrillic": (RUSSIAN.encode() * 3 + "Порт".encode("cp1251"), RUSSIAN * 3 + "Порт"),
    "Japanese": ("渡辺さんは船を売りました。".encode() * 3 + b"\xe6\xb8", "渡辺さんは船を売りました。" * 3 + "\ufffd"),
    "byte-order mark": (b"\xef\xbb\xbfKaf\xe9 und Br\xc3\xb6tchen", "\ufeffKafé und Brötchen"),
    # Programs with other settings append to the same log; none of its lines is misread.
    "German lines": (GERMAN.encode() * 5 + GERMAN.encode("cp1252") * 5, GERMAN * 10),
    "Chinese lines": (CHINESE.encode() * 3 + CHINESE.encode("gb18030") * 3, CHINESE * 6),
    # Accented letters within Latin words are neither Greek nor Central European.
    "of DOS": ("Käpt'n Brömel, Façade\n".encode("cp850"), "Käpt'n Brömel, Façade\n"),
    "of Windows": ("“Café” – a naïve résumé…".encode("cp1252"), "“Café” – a naïve résumé…"),
    # Text has `\n` whatever the file has, as Python reads it.
    "line ends": (b"a\r\nb\rc\n", "a\nb\nc\n"),
}
# A single sentence is enough, with a byte-order mark and without. The bytes of Japanese mail are all ASCII, and no UTF-8 for that.
ENCODED = {
    "utf-8-sig": "Ruth Sand bought it – at last.", "utf-16": "Ruth Sand in Vardby", "utf-16-le": "Ruth Sand in Vardby\nLars",
    "utf-16-be": "王海明 on the Skua\n", "cp1252": "Die Fähre gehört der Bäckerei Müller.",
    "shift_jis": "渡辺さんは船を売りました。", "gbk": "王海明是海鸥号的轮机长。", "big5": "王海明是海鷗號的輪機長。",
    "euc_jp": "会議の記録：予算は承認された。", "euc_kr": "배는 부산에 있습니다.", "cp1251": "Корабль стоит в порту Мурманска.",
    "iso2022_jp": "会議の記録",
}  # fmt: skip


@pytest.mark.parametrize(("data", "text"), DECODED.values(), ids=DECODED)
def test_broken_and_mixed_encodings_are_decoded(data, text):
    """Each byte as what it means where it stands."""
    assert decode(data) == text


@pytest.mark.parametrize("encoding", ENCODED)
def test_encodings_are_told_from_the_bytes(encoding):
    """Without any declaration."""
    assert decode(ENCODED[encoding].encode(encoding)).lstrip("\ufeff") == ENCODED[encoding]


@pytest.mark.parametrize("declared", ["utf-8", "iso-8859-1", "shift_jis", "no-such-name", ""])
@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_a_wrong_declaration_does_not_garble_a_text(encoding, declared):
    """What a file says of its encoding counts less than its bytes."""
    assert decode(GERMAN.encode(encoding), declared) == GERMAN


@pytest.mark.parametrize("gap", [b"\0" * 37 + b"\n", b"\0" * 4096, b"\0"])
def test_zero_bytes_in_a_log_are_dropped(gap):
    """They are what a crash leaves; the lines around them are kept, and a file of even length with one is no UTF-16."""
    log = b"07:00 burner lit by Ruth Sand\n" + gap + b"07:05 valve opened, burner out\n" * 5
    for data in (log, log + b"\n"):
        assert not looks_binary(data)
        lines = [line for line in text_of("a.log", data).split("\n") if line]
        assert lines[:2] == ["07:00 burner lit by Ruth Sand", "07:05 valve opened, burner out"]


FENCED = "```\nfit(catch)\n```\n\n"
CATCH = "<table><tr><th>Boat</th><th>Cod</th></tr><tr><td>Skua</td><td>7</td></tr></table>"
MARKS = "The re\u00adstored \ufb01rst o\ufb03ce of Rene\u0301e in bathy\u200bmetry"
UNMARKED = "The restored first office of Renée in bathymetry"
JOINED = "می\u200cخواهم 👩\u200d🚀 ភាសា\u200bខ្មែរ"
DIVIDED = "He in-\nherited the well-\nknown light-\nhouse, all well and known. Its com-\nmittee,\nof A-\nB, has a light-house.\n"
CUES = (
    ("00.500", "03.490", " \nthe<00:00:00.800><c> ferry</c><00:00:01.100><c> left</c>"),
    ("03.490", "03.500", "the ferry left\n "),
    ("03.500", "06.490", "the ferry left\nfor<00:00:03.800><c> Vardby</c>"),
    ("06.490", "09.000", "for Vardby\nand Ruth stayed"),
    ("09.000", "10.000", "and Ruth stayed\nashore"),
    ("20.000", "21.000", "the ferry left"),
)
ROLLING = "WEBVTT\n\n" + "\n".join(f"00:00:{a} --> 00:00:{b} align:start position:0%\n{text}\n" for a, b, text in CUES)
CALENDAR = r"""BEGIN:VCALENDAR
VERSION:2.0
BEGIN:VEVENT
DTSTART;TZID=Europe/Oslo:19740304T093000
SUMMARY:Launch of the fer
 ry Skua\, at no
 on
ORGANIZER;CN="Sand, Ruth":mailto:ruth@vardby.example
LOCATION:Quay 9
DESCRIPTION:Bring boots.\nTea.
BEGIN:VALARM
DESCRIPTION:Reminder
END:VALARM
END:VEVENT
BEGIN:VTODO
SUMMARY:Buy rope
DUE;VALUE=DATE:19740305
END:VTODO
END:VCALENDAR
"""


def notebook(*outputs):
    return json.dumps({"cells": [{"cell_type": "code", "source": ["fit(catch)"], "outputs": list(outputs)}]})


TEXTS = [
    # Outputs of a notebook: tables with their headers, errors by their message, nothing with the escapes of a terminal.
    ("stream.ipynb", notebook({"output_type": "stream", "text": ["\x1b[32mok\x1b[0m\n", "10%\r 50%\r100%\n"]}), f"{FENCED}ok\n100%"),
    ("error.ipynb", notebook({"output_type": "error", "ename": "ValueError", "evalue": "\x1b[31mno catch", "traceback": ["\x1b[0;31m---"]}),
     f"{FENCED}ValueError: no catch"),
    ("table.ipynb", notebook({"data": {"text/plain": "   a ...", "text/html": CATCH}}), f"{FENCED}Boat: Skua · Cod: 7"),
    ("prose.ipynb", notebook({"data": {"text/plain": "<IPython.core.display.Markdown object>", "text/markdown": ["**Skua** leads"]}}),
     f"{FENCED}**Skua** leads"),
    # Captions are read once however often a line is shown, also where it grows by a word; what is said again later stays.
    ("rolling.vtt", ROLLING, "the ferry left for Vardby and Ruth stayed ashore the ferry left"),
    # Events of a calendar: folded lines are joined, escapes resolved, people named; alarms are left out.
    ("a.ics", CALENDAR.replace("\n", "\r\n"),
     "Summary: Launch of the ferry Skua, at noon\nStart: 1974-03-04 09:30 Europe/Oslo\nLocation: Quay 9\n"
     "Organizer: Sand, Ruth <ruth@vardby.example>\nDescription: Bring boots.\nTea.\n\nSummary: Buy rope\nDue: 1974-03-05"),
    # Soft hyphens and spaces of no width are gone, ligatures are letters, accents are in their letters.
    *((f"marks{suffix}", MARKS, UNMARKED) for suffix in (".txt", ".md", ".csv")),
    ("marks.html", f"<p>{MARKS}</p>", UNMARKED),
    ("marks.json", json.dumps({"a": MARKS}), f"a: {UNMARKED}"),
    ("marks.srt", f"1\n00:00:01,000 --> 00:00:02,000\n{MARKS}\n", UNMARKED),
    # Persian words and families of emoji need their joiners.
    ("joiners.txt", JOINED, JOINED),
    # Words divided at the end of a line are joined, and the line ends after them; compounds keep their hyphen, and so does code.
    ("divided.txt", DIVIDED,
     "He inherited\nthe well-known\nlight-house,\nall well and known. Its committee,\nof A-\nB, has a light-house.\n"),
    ("divided.py", DIVIDED, DIVIDED),
    # Other subtitles and lyrics: as SubRip's, with the speakers, without drawings and formats.
    ("a.ass", "[Events]\nDialogue: 0,0:01:04.20,0:01:08.00,D,Lars,0,0,0,,{\\i1}Why?\n"
     "Dialogue: 0,0:00:01.00,0:00:04.00,D,Ruth,0,0,0,,It\\Nleaks, see.\n"
     "Dialogue: 0,0:00:02.00,0:00:04.00,D,,0,0,0,,{\\p1}m 0 0 l 9 9\n", "Ruth: It leaks, see.\n\nLars: Why?"),
    ("a.sbv", "0:00:01.000,0:00:04.000\nThe Skua\nleaks\n\n0:00:04.200,0:00:08.000\nbadly.\n", "The Skua leaks badly."),
    ("a.lrc", "[ti:Skua]\n[00:12.00][00:40.00]The Skua leaks\n[00:17.20]<00:17.20>so <00:17.60>badly\n", "The Skua leaks so badly"),
    ("a.ttml", "<tt xmlns='http://www.w3.org/ns/ttml'><p begin='00:00:01.5'>The Skua<br/>leaks.</p><p begin='00:02:00.5'>Why?</p></tt>",
     "The Skua leaks.\n\nWhy?"),
    # Letters of LaTeX in a bibliography, also in quotation marks; what has no end.
    ("a.bib", r"""@Article{k19, author = "K{\"o}hler, A. and H{\'a}jek, J.", title = {Salt in the {B}altic, 7% \& more},
 year = 2019, url = {x.example/a_b}}
@misc{h4, title = {No {end,
  year = 2004
}
""", "article: k19\nauthor: Köhler, A. and Hájek, J.\ntitle: Salt in the Baltic, 7% & more\nyear: 2019\nurl: x.example/a_b\n\n"
     "misc: h4\ntitle: No end\nyear: 2004"),
    # Contacts of all versions, without pictures and keys; directories.
    ("a.vcf", "BEGIN:VCARD\nVERSION:2.1\nN;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:B=C3=B6hm;J=C3=BCrgen;;;\nTEL;CELL;VOICE:+49 171\n"
     "NOTE;ENCODING=QUOTED-PRINTABLE;CHARSET=ISO-8859-1:Schl=FCs=\nsel=0D=0Aim Boot\nPHOTO;ENCODING=BASE64:AAEC\n AwQF\n\nEND:VCARD\n"
     "BEGIN:VCARD\nVERSION:4.0\nN:Kvist;Edda;;;\nFN:Edda Kvist\n"
     "item1.TEL;VALUE=uri;TYPE=\"work,voice\":tel:+47-555\nADR;TYPE=home:;;Quay 9\\, left;Va\n rdby;;;\n"
     "KEY:data:x;base64,AAEC\nEND:VCARD\n",
     "Full name: Böhm, Jürgen\nPhone: +49 171\nNote: Schlüssel\nim Boot\n\n"
     "Name: Edda Kvist\nFull name: Kvist, Edda\nPhone: tel:+47-555\nAddress: Quay 9, left, Vardby"),
    ("a.vcs", "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDESCRIPTION;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:T=C3=BC=\nr=0D=0A=\nlinks\nEND:VEVENT\n",
     "Description: Tür\nlinks"),
    ("a.ldif", "dn: cn=Edda,\n dc=x\ncn:: SsO8cmdlbg==\njpegPhoto:: /9j/4AAQ\n\ndn: cn=Per\n",
     "dn: cn=Edda,dc=x\ncn: Jürgen\n\ndn: cn=Per\n"),
    ("a.properties", "a=Sch\\u00f6n \\ud83d\\ude0a\n", "a=Schön 😊\n"),
    # HTML in values of JSON is text, and each object of a list in an object is a paragraph.
    ("a.json", json.dumps({"n": 2, "issues": [{"text": "<p>At <b>1.4&nbsp;m</b></p><p>oil &amp; bar"}, {"text": "a < b"}]}),
     "n: 2\n\nissues.1.text: At 1.4 m oil & bar\n\nissues.2.text: a < b"),
    # A log has no escape sequences of terminals, and may have lines that a shell of Windows appended in UTF-16.
    ("colors.log", "\x1b[1;31mERROR\x1b[0m no \x1b]0;title\x1b\\tide\n", "ERROR no tide\n"),
    ("appended.log", b"burner lit by Ruth Sand\n" * 5 + "valve opened\r\n".encode("utf-16-le"),
     "burner lit by Ruth Sand\n" * 5 + "valve opened\n"),
    # A single line may have any length, with and without spaces.
    ("line.txt", "x" * 400_000, "x" * 400_000),
]  # fmt: skip


def test_html_tables_in_markdown_are_written_as_rows():
    """All else stays as it is, also a table in code and one that only arranges pictures."""
    layout = "<table><tr><td><img src=a.png></td></tr></table>"
    source = f"# Pay\n\n{CATCH}\nAs *agreed*.\n\n```html\n{CATCH}\n```\n\n{layout}\n"
    content = parsed("a.md", source)
    assert content.text == source.replace(CATCH, "Boat: Skua · Cod: 7", 1)
    assert [(block.kind, block.columns) for block in content.blocks] == [("table", ("Boat", "Cod"))]
    assert content.text[content.blocks[0].start : content.blocks[0].end] == "Boat: Skua · Cod: 7"


@pytest.mark.parametrize(("name", "source", "text"), TEXTS, ids=[name for name, *_ in TEXTS])
def test_text_formats_are_read_as_people_see_them(name, source, text):
    """Without what their programs put into them."""
    assert text_of(name, source) == text


SLATES = "王海明先生于三月买下了渡轮海鸥号并付了九百"
PAGES = """
  1  Q.  Who bought the ferry Skua
  2      in March, and what did she
  3      pay for it at the quay?
  4
  5  A.  Ruth Sand, and she

Page 2
  1      paid nine hundred crowns to
  2      the harbour master on the day.
  3  Q.  Thank you very much.
"""
UNNUMBERED = """Q.  Who bought the ferry Skua
in March, and what did she
pay for it at the quay?

A.  Ruth Sand, and she
Page 2
paid nine hundred crowns to
the harbour master on the day.
Q.  Thank you very much."""
TOLL = "Wer die Fähre benutzt, zahlt\nam Kai von Vardby neun Kronen\nan die Witwe des Kapitäns und\nerhält von ihr einen Schein, der\ngilt."
VERSES = "".join(f"{n} And the ferry left the quay of the town at noon,\n" for n in range(1, 20))
RANKS = "".join(f"{n} Ruth Sand of Vardby, captain of the Skua\n" for n in range(1, 20))
BOATS = "".join(f"{n} {boat}\n" for n, boat in enumerate("skua petrel gannet heron tern dunlin".split(), 1))
NUMBERED_LINES = {
    # A text, and what it is without numbers: pages, a bill with blank lines between, any script.
    "pages": (PAGES, UNNUMBERED),
    "spaced": ("\n\n".join(f"{n} {line}" for n, line in enumerate(TOLL.split("\n"), 1)), TOLL),
    "Chinese": ("".join(f"{n}\t{SLATES}\n" for n in range(101, 108)), "\n".join([SLATES] * 7)),
    "list": (BOATS, BOATS),
    "verses": (VERSES, VERSES),
    "ranks": (RANKS, RANKS),
}


@pytest.mark.parametrize(("source", "text"), NUMBERED_LINES.values(), ids=NUMBERED_LINES)
def test_numbers_of_lines_are_no_part_of_the_sentences(source, text):
    """Of transcripts, bills and manuscripts; numbers of items, verses and ranks stay."""
    assert text_of("a.txt", source) == text


def messages(*texts, **others):
    return json.dumps({"messages": texts, **others})


AT = 1931248800  # 2031-03-14 10:00 UTC
CHATS = {
    # Exports of Slack, Telegram, Facebook, Discord, Teams, Twitter, and of chats with models: found by their shape, whatever their name.
    "slack": (
        json.dumps([
            {"user": "U1", "user_profile": {"real_name": "Ruth"},
             "text": "<@U2|lars> see <https://x.example|the plan> &amp; <#C1|quay>", "ts": f"{AT}.02",
             "blocks": [{"text": "see"}], "files": [{"name": "plan.pdf"}]},
            {"username": "bot", "text": "", "ts": f"{AT + 60}.0", "attachments": [{"fallback": "It leaks."}]},
        ]),
        "Ruth (2031-03-14 10:00): @lars see the plan (https://x.example) & #quay\n[plan.pdf]\n\nbot (2031-03-14 10:01): [It leaks.]",
    ),
    "telegram": (
        json.dumps({"chats": {"list": [json.loads(messages(
            {"type": "message", "date": "2031-03-14T19:02:11", "from": "Ruth",
             "text": ["at ", {"type": "bold", "text": "the quay"}, {"text": "!"}],
             "text_entities": [{"type": "plain", "text": "at the quay!"}]},
            name="Choir", type="private_group",
        ))]}}),
        "# Choir\n\ntype: private_group\n\nRuth (2031-03-14 19:02): at the quay!",
    ),
    "facebook": (
        messages({"sender_name": "J\u00c3\u00b6rg", "timestamp_ms": (AT + 60) * 1000, "content": "sp\u00c3\u00a4ter \u00e2\u0080\u0093"},
                 {"sender_name": "Ruth", "timestamp_ms": AT * 1000, "content": "né"}),
        "Ruth (2031-03-14 10:00): né\n\nJörg (2031-03-14 10:01): später –",
    ),
    "discord": (
        messages({"timestamp": "2031-03-14T18:05:40.1+00:00", "content": "**It** <leaks>", "author": {"name": "Ruth"}}),
        "Ruth (2031-03-14 18:05): **It** <leaks>",
    ),
    "teams": (
        json.dumps({"conversations": [{"displayName": "Boats", "MessageList": [
            {"originalarrivaltime": "2031-03-14T10:01:00Z", "displayName": "Lars", "content": "<p>At&nbsp;noon</p>"},
            {"originalarrivaltime": "2031-03-14T10:00:00Z", "displayName": "Ruth", "content": "When?"},
        ]}]}),
        "# Boats\n\nRuth (2031-03-14 10:00): When?\n\nLars (2031-03-14 10:01): At noon",
    ),
    "teams, from its server": (
        json.dumps({"value": [
            {"createdDateTime": "2031-03-14T10:00:00Z", "from": {"user": {"displayName": "Ann"}}, "body": {"content": "<p>A <b>weir</b>"}},
        ]}),
        "Ann (2031-03-14 10:00): A weir",
    ),
    "twitter": (
        "window.YTD.tweets.part0 = "
        + json.dumps([{"tweet": {"full_text": "It leaks &amp; smells 🎉", "created_at": "Fri Mar 14 10:00:00 +0000 2031"}}]),
        "(2031-03-14 10:00): It leaks & smells 🎉",
    ),
    "tree": (
        json.dumps([{"title": "Roof", "current_node": "c", "mapping": {
            "a": {"message": None},
            "b": {"parent": "a", "message": {"author": {"role": "user"}, "create_time": AT, "content": {"parts": ["How many?"]}}},
            "x": {"parent": "b", "message": {"author": {"role": "assistant"}, "create_time": AT, "content": {"parts": ["Two."]}}},
            "c": {"parent": "b", "message": {"author": {"role": "assistant"}, "create_time": AT, "content": {"parts": ["40\n\n1. <b>"]}}},
        }}]),
        "# Roof\n\ncurrent_node: c\n\nuser (2031-03-14 10:00): How many?\n\nassistant (2031-03-14 10:00): 40\n\n1. <b>",
    ),
    "claude": (
        json.dumps([{"chat_messages": [{"sender": "human", "created_at": "2031-03-14T10:00:00.5Z", "text": "Why?"}]}]),
        "human (2031-03-14 10:00): Why?",
    ),
    "roles": (messages({"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Rust."}), "user: Why?\n\nassistant: Rust."),
    # What only looks alike is kept as it is.
    "mails": (json.dumps([{"from": "Ruth", "date": "2031", "text": "x", "subject": "y"}]), "from: Ruth\ndate: 2031\ntext: x\nsubject: y"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "text"), CHATS.values(), ids=CHATS)
def test_messages_of_a_chat_are_said_once_with_name_and_time(source, text):
    """In the order of time, with letters as they were typed."""
    assert text_of("a.js" if source.startswith("window") else "a.json", source) == text


CHAT_LINES = {
    # Lines of WhatsApp: of phones by Apple and others, in the order and with the words of many languages.
    "2031-03-14 18:05": (
        "[14.03.31, 18:05:40] ", "[3/14/31, 6:05:40\u202fPM] ", "[14/03/2031 18:05:40] ", "[2031/3/14 下午6:05:40] ",
        "[2031. 3. 14. 오후 6:05:40] ",
        "\u200e[14\u200f/3\u200f/2031, 6:05:40 م] ", "14.03.31, 18:05 - ", "3/14/31, 6:05 PM - ", "14/3/2031, 6:05 p. m. - ",
        "14/03/2031 à 18:05 - ",
        "14.3.2031 klo 18.05 - ", "14. 3. 2031 18:05 - ", "2031-03-14 18:05 - ",
        "14.03.2031 г., 18:05 - ",
    ),
    "2031-05-04 00:05": ("5/4/31, 12:05 AM - ", "04/05/2031, 12:05 am - ", "04.05.31, 00:05 - "),
}  # fmt: skip


@pytest.mark.parametrize(("start", "time"), [(start, time) for time, starts in CHAT_LINES.items() for start in starts])
def test_a_chat_exported_as_lines_is_told_in_any_language(start, time):
    """Messages of several lines, and what nobody wrote; marks of direction are dropped."""
    chat = f"{start}Ruth: It \u200eleaks.\nBadly: very.\n{start}~ Lars: Why?\n{start}Per joined"

    assert text_of("_chat.txt", chat) == f"Ruth ({time}): It leaks.\nBadly: very.\n\nLars ({time}): Why?\n\n({time}): Per joined"


@pytest.mark.parametrize("log", ["[2031-03-14 18:05:40] INFO: lit\n", "2031-03-14 18:05:40 - INFO: lit\n", "18:05 Ruth: lit\n"])
def test_lines_of_a_log_are_no_chat(log):
    """Their seconds are kept."""
    assert text_of("a.txt", log * 3) == log * 3


def test_people_of_slack_are_named_by_the_list_beside_their_channels(tmp_path):
    """The export has the names in a file of their own, and the document is read anew when it changes."""
    (tmp_path / "quay").mkdir()
    day = tmp_path / "quay" / "2031-03-14.json"
    day.write_text(json.dumps([{"user": "U04KVIST01", "text": "<@U04BRANDT2> it leaks", "ts": str(AT)}]))
    before = content_hash_of(day, "digest")
    (tmp_path / "channels.json").write_text("[]")
    (tmp_path / "users.json").write_text(
        json.dumps([{"id": "U04KVIST01", "real_name": "Ruth"}, {"id": "U04BRANDT2", "profile": {"real_name": "Lars"}}])
    )

    assert read(day).text == "Ruth (2031-03-14 10:00): @Lars it leaks"
    assert content_hash_of(day, "digest") != before


def test_a_long_output_of_a_notebook_is_cut():
    """At the end of a line; the other outputs are kept."""
    text = text_of("a.ipynb", notebook({"text": "tide 1\n" * 5000}, {"text": "end"}))

    assert len(text) < 2500
    assert text.endswith("tide 1\n\nend")


@pytest.mark.parametrize(
    ("source", "metadata"),
    [
        ("title: The Skua: a history\ndate: 1974-03-04\ntags: [sea, log]", "title The Skua: a history|date 1974-03-04|tags sea, log"),
        ('title: @Skua\nauthor: Ruth "R" Sand: mate', 'title @Skua|author Ruth "R" Sand: mate'),
        ("title: Skua\n\tbroken: [1\nauthor: Ruth Sand", "title Skua|author Ruth Sand"),
        ("title: Skua\nrelated: [[Vardby]]\naliases:\n  - 'Old: Skua'", "title Skua|related Vardby|aliases Old: Skua"),
    ],
)
def test_a_line_of_front_matter_that_is_no_yaml_spoils_no_other(source, metadata):
    """A colon in a title, a sign that YAML reserves, a link to another note."""
    content = parsed("a.md", f"---\n{source}\n---\n\nIt leaks.\n")

    assert "|".join(map(" ".join, content.metadata)) == metadata
    assert content.text.endswith("It leaks.\n")


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("## To do\n\n- rope\n\n## Done\n\n- paint\n", ""),
        ("# Skua\n\n## To do\n\n## Done\n\n# More\n", "Skua"),
        ("text\n\n## Skua\n\n### To do\n", "Skua"),
    ],
)
def test_a_section_of_a_note_is_not_its_title(source, title):
    """Headings that stand beside each other name sections; a single one, or one above them, names the note."""
    assert parsed("a.md", source).title == title


def test_parts_stay_where_they_are_when_marks_are_removed():
    """The places of cells move with the text before them."""
    cells = [{"cell_type": "markdown", "source": f"o\ufb03ce n\u00adu\u00admber {n}"} for n in range(3)]
    content = parsed("a.ipynb", json.dumps({"cells": cells}))

    assert [content.text[p.start : p.end] for p in content.parts] == ["office number 0", "office number 1", "office number 2"]


def test_lock_files_of_office_are_no_documents(tmp_path):
    """They are listed as leftovers."""
    source = find_files([write(tmp_path, {"~$letter.docx": b"\x08Ruth", "letter.txt": b"It leaks."})])

    assert [file.name for file in source.files] == ["letter.txt"]
    assert source.left_out == {tmp_path / "~$letter.docx": "a leftover of a program (taken with --all-files)"}


def rtf(body, head=""):
    return rf"{{\rtf1\ansi\ansicpg1252\deff0{head} {body}}}"


RTF = {
    "revisions": (r"It cost {\deleted 90}{\revised 150} crowns, \deleted no\deleted0 yes.", "It cost 150 crowns, yes."),
    "raised": (r"Built in 1874{\super 2}, 10{\super 6} bricks, H{\sub 2}O, 2\super nd\nosupersub .",
               "Built in 1874[2], 10^6 bricks, H2O, 2nd."),
    "note": (r"It leaks.{\footnote \pard At the bow.} Badly.", "It leaks. [1] Badly.\n\n[1] At the bow."),
    "margins": (r"{\header File 7-B\par}{\footer Page {\field{\*\fldinst PAGE}{\fldrslt 1}}\par}It leaks.",
                "File 7-B\n\nIt leaks.\n\nPage 1"),
    "characters": (r"\u321?uk caf\'e9 \uc0\u8364 5 \uc1\u-10179?\u-8704? a\emdash b\~c", "Łuk café €5 😀 a—b\xa0c"),
    "hidden": (r"{\v hidden}seen {\*\private gone}{\field{\*\fldinst{HYPERLINK x}}{\fldrslt link}}", "seen link"),
    "list": (r"{\listtext\'b7\tab}rope\par {\listtext 2.\tab}paint\par", "- rope\n2. paint"),
    "table": (r"\trowd Boat\cell Tons\cell\row\trowd\intbl Skua\par of 1974\cell 7\cell\row\pard end",
              "Boat: Skua of 1974 · Tons: 7\n\nend"),
    "heading": (r"\pard\outlinelevel1 Boats\par\pard It leaks.", "## Boats\n\nIt leaks."),
    "box": (r"{\shp{\*\shpinst{\sp{\sn a}{\sv b}}{\shptxt In a box.\par}}} end{\pict\bin3 {{{ffd8}", "In a box.\n\nend"),
    "link": (r'Fill in {\field{\*\fldinst {\b HYPERLINK "https://a.example/p" \\\\o "tip"}}{\fldrslt {\ul the form}}}, {\b now}.',
             "Fill in the form (https://a.example/p), now."),
    "mail": (r'{\field\flddirty{\*\fldinst HYPERLINK mailto:edda@a.example }{\fldrslt Edda}}', "Edda (edda@a.example)"),
    "own place": (r'See {\field{\*\fldinst HYPERLINK \\l "part"}{\fldrslt part 2}}.', "See part 2."),
    "struck": (r"Pays {\strike 14} {\striked1 15} {\strikedl\b 16} \strike 17\strike0  18 {\strike 19\plain  crowns}.",
               "Pays ~~14~~ ~~15~~ ~~16~~ ~~17~~ 18 ~~19~~ crowns."),
    "pen": (r"It {\highlight7 leaks\highlight0  badly}.", "It ==leaks== badly."),
    "comment": (r"Pay {\*\atrfstart 0}900 {\b crowns}{\*\atrfend 0}{\*\atnid AH}{\*\atnauthor Ane Holt}\chatn{\*\annotation{\*\atnref 0}"
                r"{\*\atndate 2814576640}\pard Too high} a year.{\*\atnauthor Bo}{\*\annotation Yes}",
                "Pay 900 crowns a year.\n\nComment by Ane Holt: Too high\n\nComment by Bo: Yes"),
    "nested list": (r"{\listtext\'b7\tab}rope\par\ilvl1{\listtext a)\tab}tar\par", "- rope\n  a) tar"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "text"), RTF.values(), ids=RTF)
def test_rich_text_is_read_as_it_is_shown(body, text):
    """Without what was deleted or hidden, with notes, margins, lists, tables and headings, and with raised digits apart."""
    assert text_of("a.rtf", rtf(body)) == text


def test_rich_text_is_decoded_by_its_fonts():
    """Each font has its encoding; styles name headings, and the particulars are metadata."""
    head = r"{\fonttbl{\f0\fcharset204 A;}{\f1\fcharset128 B;}}{\stylesheet{\s1\outlinelevel0 heading 1;}}"
    head += r"{\info{\title The log}{\author Ruth Sand}}"
    found = parsed("a.rtf", rtf(r"\pard\s1\f0 \'ca\'ee\'f0\par\pard\f1 \'91\'44", head))

    assert found.text == "# Кор\n\n船"
    assert found.metadata == (("title", "The log"), ("author", "Ruth Sand"))


MACROS = r"""
\newcommand\boat{Skua} \renewcommand{\weight}[2][7]{#1 tons of #2}\def\by#1{by \emph{#1}}
\newcommand{\whose}{\boat, \by{Lars}} \newcommand*{\firm}{Holm \& Sons\xspace} \newtheorem{lemma}{Lemma}
\newenvironment{aside}[1]{\begin{quote}#1}{\end{quote}} \newcommand{\loop}{\loop\loop}
"""
TEX = {
    "macros": (r"The \boat{} took \weight{cod}, \weight[9]{eel}; \whose.", "The Skua took 7 tons of cod, 9 tons of eel; Skua, by Lars."),
    "end of a macro": (r"Built by \firm in \boat\ bay. $\boat^2$ \loop end", "Built by Holm & Sons in Skua bay. $Skua^2$ end"),
    "notes": (r"It leaks.\footnote{At \textbf{the bow}.} Badly\footnote{Or not.}.",
              "It leaks. [1] Badly [2].\n\n[1] At the bow.\n[2] Or not."),
    "raised": (r"In 1874\textsuperscript{2} 10\textsuperscript{6} H\textsubscript{2}O, a 2\textsuperscript{nd}.",
               "In 1874^2 10^6 H2O, a 2nd."),
    "table": (
        r"\begin{tabularx}{5cm}{l|rr}\toprule Boat & \multicolumn{2}{c}{Cod \& eel} \\ & 1973 & 1974 \\ \midrule "
        r"\emph{Skua} & 7 & 8 \\[2pt] \multirow{2}{*}{Tern} & 9 & 10\\ \bottomrule\end{tabularx}",
        "Boat: Skua · Cod & eel 1973: 7 · Cod & eel 1974: 8\nBoat: Tern · Cod & eel 1973: 9 · Cod & eel 1974: 10",
    ),
    "rules and rows": (
        r"\begin{tabular}{ll}\toprule & \multirow{2}*{\textbf{Boat}} & Cod \\ & & tons \\ \midrule\rule{0pt}{2ex}"
        r"\multirow{2}{*}{North} & \cellcolor{red}Skua & 7 \\ & Tern & 9 \\ \addlinespace[2pt]\end{tabular}",
        "North · Boat: Skua · Cod tons: 7\nNorth · Boat: Tern · Cod tons: 9",
    ),
    "commands": (
        r"Set \texttt{keel\_1} or \verb|a_b%c| or \verb+%d+, \textsf{see} \mbox{\S\ref{mast}}"
        r" \href{http://x.example/\%20}{here} for \pounds5.",
        "Set keel_1 or a_b%c or %d, see §mast here (http://x.example/%20) for £5.",
    ),
    "verbatim": ("A\n\\begin{verbatim}\n  if {x} % y\n\\end{verbatim}\nB \\begin{comment}C\\end{comment}", "A\n\n  if {x} % y\n\nB"),
    "arguments": (r"\begin{minipage}[t]{3cm}\resizebox{2cm}{!}{Skua}\end{minipage} \index{boat}\includegraphics{a}\caption[Sail]{The sail}",
                  "Skua The sail"),
    "list": (r"\begin{description}\item[Keel] the lowest\item[Mast] the highest\end{description}",
             "- Keel: the lowest\n- Mast: the highest"),
    # Quantities, with the names of their units.
    "speed": (r"\SI{9.81}{\metre\per\second\squared}", "9.81 metre per second squared"),
    "uncertain": (r"\qty[per-mode=symbol]{7.5 +- 0.1}{\milli\litre}", "7.5 ± 0.1 milli litre"),
    "number": (r"\num{1.5e3} boats", "1.5e3 boats"),
    "degrees": (r"\qty{20}{\degreeCelsius}", "20 °C"),
    "range": (r"\SIrange{10}{12}{\km}", "10–12 km"),
    "angle": (r"\ang{12;30;}", "12°30′"),
    "written unit": (r"\SI{3}{kg.m^{-2}}", "3 kg.m^-2"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "text"), TEX.values(), ids=TEX)
def test_tex_is_read_as_it_is_set(body, text):
    """With its own commands expanded, tables by row, notes at the end, raised digits apart, and units by their names."""
    source = rf"\documentclass{{article}}{MACROS}\begin{{document}}{body}\end{{document}}"

    assert " ".join(text_of("a.tex", source).split()) == " ".join(text.split())


def test_tex_that_is_not_well_formed_is_read_all_the_same():
    """Open braces and environments cost no more than their own paragraph its tidiness."""
    text = text_of("a.tex", "\\section{Boats}\n\nThe \\textbf{Skua} leaks.\n\n" + "\\begin{a}{\\it so {" * 40 + "far\n\nThe \\emph{end}.")

    assert text.startswith("## Boats\n\nThe Skua leaks.\n\n")
    assert "far" in text
    assert text.endswith("The end.")


ENDLESS = {
    **{f"{n}.rtf": rtf(f"deep {source * 30_000} end")
       for n, source in enumerate(["{", "{\\footnote ", "\\trowd a\\cell\\row ", "\\'e9", "\\super x{"])},
    **{f"{n}.tex": f"deep {source * 5_000} end"
       for n, source in enumerate([
          "\\newcommand{", "\\footnote{", "\\begin{tabular}{l} ", "\\textsuperscript{", "\\newcommand{\\x}[9]{#1#1", "\\multicolumn{2}{c}{",
          "\\begin{verbatim}\\verb|\\iffalse ", "\\def\\y{\\y\\y}\\y ",
       ])},
    "references.tex": "deep " + "\\ref{" * 30_000,
    "citations.tex": "deep " + "\\cite{" * 30_000,
    "lists.html": "<ul><li>" * 600 + "deep",
    "spaces.html": "<p>deep<pre>" + " " * 300_000 + ".",
    "comments.html": "<div>" * 3000 + "deep" + "<!-- " * 60_000,
    "scripts.html": "deep" + "<script>" * 40_000,
    "tags.srt": "1\n00:00:01,000 --> 00:00:02,000\ndeep " + "{\\" * 100_000,
    "addresses.eml": "From: deep <" + "a@b.example, <" * 20_000 + "\n\ntext",
}  # fmt: skip


@pytest.mark.parametrize("name", mostly_ci(ENDLESS, *(ENDLESS.keys() - {"2.tex", "5.tex", "7.tex"})))
def test_what_is_repeated_a_thousand_times_costs_no_more_than_its_length(tmp_path, name):
    """Markup that never ends, however deeply nested, and commands that expand to themselves are read within seconds, as a short text."""
    text = read(write(tmp_path, {name: ENDLESS[name].encode()}) / name, limits=Limits(seconds=20)).text

    assert "deep" in text
    assert len(text) <= len(ENDLESS[name]) + 20_000
