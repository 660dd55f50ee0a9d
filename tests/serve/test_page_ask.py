"""The page in a real browser over a real index: questions, answers, their sources."""

import re
import shutil
import sqlite3
from contextlib import closing
from functools import cache

import pytest

from tests.conftest import TOWN, until
from tests.serve.browser import LOOKS, assert_accessible, focused, opened, own_words, violations
from tests.serve.server import asked, served

pytestmark = pytest.mark.ci

BELL = "On 4 May 😀 the crane driver Piet Vos dropped the copper bell into the basin."
POISON = "The cook Olaf Brandt served <script>alert(1)</script> soup with ![map](http://evil.example/x.png) on the Skua."
HERON = "In the year of the heron the bell founder Mats Ek cast the bronze anchor."
ANSWERED = "article.turn[data-state=done]"  # a run on the page has a state as well


@pytest.fixture(scope="module")
def folder(indexed):
    """An index of letters, a log with signs beyond the first plane, a long chronicle and a document that means ill."""
    entries = [f"Entry {i} 😀: the wind turned.\n\n" for i in range(40)]
    years = [f"In the year {i} {'the tide came in and the tide went out over the long sands, ' * 8}and so on.\n\n" for i in range(160)]
    more = {
        "log.txt": "".join([*entries[:30], f"{BELL}\n\n", *entries[30:]]),
        "chronicle.txt": "".join([*years[:110], f"{HERON}\n\n", *years[110:]]),
        "poison.md": f"# Soup\n\n{POISON} He wrote [here](javascript:alert(1)).\n",
    }
    return indexed(TOWN | more, "--extractor", "phrases")


@pytest.fixture(scope="module")
def server(folder):
    """A server whose answers are sentences of the documents: they are there at once."""
    with served(folder) as running:
        yield running


@pytest.fixture(scope="module")
def writing(folder, tmp_path_factory):
    """A server whose answers a model writes: they take their time."""
    copy = shutil.copytree(folder, tmp_path_factory.mktemp("writing") / "copy")
    with closing(sqlite3.connect(copy / ".localrag" / "index.db")) as db, db:
        db.execute("UPDATE index_settings SET value = json_set(value, '$.style', 'abstractive') WHERE key = 'settings'")
    with served(copy) as running:
        yield running


@pytest.fixture(scope="module")
def answers(server):
    """Asks a question once, without the page, and gives its answer."""
    with server.client() as door:
        yield cache(lambda question: asked(door, question))


def ask(page, question):
    box = page.get_by_label("Your question")
    box.fill(question)
    box.press("Enter")
    return page.locator("article.turn").last


def test_a_question_is_answered_and_its_chip_opens_the_exact_words(browser, server):
    """Also where signs before them count twice in JavaScript; Escape closes the source and the chip has the focus again."""
    with opened(browser, server) as (page, heard):
        turn = ask(page, "Who dropped the copper bell into the basin?")
        turn.locator("footer.foot").wait_for()
        assert turn.get_attribute("data-state") == "done"
        assert "Piet Vos" in turn.inner_text()
        assert re.search(r"#/ask/\d+$", page.url)
        chip = turn.locator("a.chip").first
        label = chip.get_attribute("aria-label")
        assert label == "Source 1: log.txt"

        chip.click()
        assert page.locator(".source .state").inner_text() == "The document says exactly this."
        assert own_words(page) == BELL
        assert page.locator("mark").first.evaluate("m => m.querySelector('.offscreen').textContent.trim()") == "Quoted passage begins:"
        assert page.locator("mark").first.is_visible()
        assert "log.txt" in focused(page)

        page.keyboard.press("Escape")
        page.locator(".source").wait_for(state="detached")
        assert focused(page) == label
        assert heard.outside(server.address) == []


def test_a_screen_reader_hears_finished_sentences_and_the_end(browser, server):
    """The log has the sentences without their signs, the status the number of sources; the draft is in neither."""
    with opened(browser, server) as (page, _):
        turn = ask(page, "Who bought the ferry Skua?")
        turn.locator("footer.foot").wait_for()
        count = turn.locator(".sources li").count()
        assert re.fullmatch(rf"Answer complete, {count} sources?\.", page.locator("div[role=status]").inner_text())
        spoken = page.locator("[role=log]").inner_text()
        assert "Ingrid Holm" in spoken
        assert "(Source 1)" in spoken
        assert "*" not in spoken
        assert page.locator("[role=log] .draft").count() == 0


def test_a_long_document_is_read_on_from_the_passage(browser, server, answers):
    """A window of it is loaded, the rest on demand; what comes before the passage does not move it away."""
    made = answers("Who cast the bronze anchor?")
    n = next(c["n"] for c in made["citations"] if "Mats Ek" in c["quote"])
    with opened(browser, server, f"#/source/{made['id']}/{n}") as (page, _):
        assert own_words(page) == HERON
        text = page.locator(".scroller.text")
        assert "In the year 0 " not in text.text_content()
        assert "In the year 159 " in text.text_content()
        page.get_by_role("button", name="Show earlier text").click()
        page.get_by_text("In the year 0 ").wait_for(state="attached")
        assert text.text_content().count("In the year 50 ") == 1
        assert page.get_by_role("button", name="Show earlier text").count() == 0
        assert own_words(page) == HERON


TABLE = (
    '<div class="table-scroll" tabindex="0" role="group" aria-label="Table"><table class="grid"><thead><tr>{}</tr></thead>'
    "<tbody>{}</tbody></table></div>"
)
MARKDOWN = [
    ([{"text": "**Bold "}, {"n": 1}, {"text": " still** and *thin*"}], "<p><strong>Bold <i>1</i> still</strong> and <em>thin</em></p>"),
    ([{"text": "a [1] of its own"}], "<p>a [1] of its own</p>"),
    ([{"text": "- one\n  - two\n- three\n"}], "<ul><li>one<ul><li>two</li></ul></li><li>three</li></ul>"),
    ([{"text": "3. three\n4. four"}], '<ol start="3"><li>three</li><li>four</li></ol>'),
    ([{"text": "# Head\ntext\n\n> said"}], "<h3>Head</h3><p>text</p><blockquote><p>said</p></blockquote>"),
    ([{"text": "```\n<b>**x**</b>\n```"}], '<pre tabindex="0"><code>&lt;b&gt;**x**&lt;/b&gt;\n</code></pre>'),
    ([{"text": "snake_case_name, 3 * 4 * 5, `a*b`, *open"}], "<p>snake_case_name, 3 * 4 * 5, <code>a*b</code>, *open</p>"),
    ([{"text": "![map](http://evil.example/x.png) <img src=x>"}], "<p>[map] &lt;img src=x&gt;</p>"),
    (
        [{"text": "New. [contradicted]"}, {"n": 3}],
        '<p>New. <span class="mark contradicted" title="The source says something else.">contradicted</span><i>3</i></p>',
    ),
    (
        [{"text": "Red. [unsupported]"}],
        '<p>Red. <span class="mark unsupported" title="No passage of the documents supports this sentence.">no source</span></p>',
    ),
    (
        [
            {"text": "| Plan | `a\\|b` |\n|:--|--:|\n| Basic \\| more | 10 "},
            {"n": 1},
            {"text": " |\n| Plus | 20 [unsupported] | 3 | "},
            {"n": 2},
        ],
        TABLE.format(
            '<th scope="col" dir="auto">Plan</th><th scope="col" class="end" dir="auto"><code>a|b</code></th>',
            '<tr><td dir="auto">Basic | more</td><td class="end" dir="auto">10 <i>1</i></td></tr>'
            '<tr><td dir="auto">Plus</td><td class="end" dir="auto">20 <span class="mark unsupported" '
            'title="No passage of the documents supports this sentence.">no source</span>3 <i>2</i></td></tr>',
        ),
    ),
    ([{"text": "not | a table\nbut | text"}], "<p>not | a table but | text</p>"),
    (
        [
            {"text": "1. Install:\n\n   ```sh\n   pip install x\n     y\n   ```\n   "},
            {"n": 1},
            {"text": "\n2. Run\n   - deep\n     - deeper\n\nEnd"},
        ],
        '<ol start="1"><li><p>Install:</p><pre tabindex="0"><code>pip install x\n  y\n</code></pre><p><i>1</i></p></li>'
        "<li><p>Run</p><ul><li>deep<ul><li>deeper</li></ul></li></ul></li></ol><p>End</p>",
    ),
    ([{"text": "~~~~ini\n```\na = [1] `x`\n~~~\n\nopen"}], '<pre tabindex="0"><code>```\na = [1] `x`\n~~~\n\nopen\n</code></pre>'),
    ([{"text": "```\nx\n```\n"}, {"n": 4}], '<pre tabindex="0"><code>x\n</code></pre><p><i>4</i></p>'),
    (
        [{"text": "a \\[7\\] \\*b\\* `c\\[7\\]` &lt;b> !\\[map]\\(http://evil.example/x.png)"}],
        "<p>a [7] *b* <code>c[7]</code> &lt;b&gt; [map]</p>",
    ),
    ([{"text": "---\n\n第一 **二** مرحبا"}], "<hr><p>第一 <strong>二</strong> مرحبا</p>"),
    ([{"text": "first\nsecond\n\n"}, {"draft": "thi"}], '<p>first second</p><p><span class="draft" aria-hidden="true">thi</span></p>'),
]


def test_markdown_becomes_elements_and_nothing_else_does(browser, server):
    """Marks are the ones that are given as such; what is no markdown, or would load something, stays text."""
    with opened(browser, server) as (page, _):
        for segments, expected in MARKDOWN:
            made = page.evaluate(
                """async (segments) => {
                    const { html, render } = await import(new URL("static/vendor/preact.js", location.href));
                    const { Markdown } = await import(new URL("static/lib/markdown.js", location.href));
                    const box = document.createElement("div");
                    render(html`<${Markdown} segments=${segments} chip=${(n) => html`<i>${n}</i>`} />`, box);
                    return box.firstChild.innerHTML;
                }""",
                segments,
            )
            assert made == expected
        links = page.evaluate(
            """async (text) => {
                const { html, render } = await import(new URL("static/vendor/preact.js", location.href));
                const { Markdown } = await import(new URL("static/lib/markdown.js", location.href));
                const box = document.createElement("div");
                render(html`<${Markdown} text=${text} />`, box);
                return [box.querySelectorAll("a, img").length, box.querySelectorAll("button").length, box.innerText];
            }""",
            r"See [here](http://evil.example/a) and http://evil.example/b. [Click](javascript:alert) [x]\(http://evil.example/c)",
        )
        assert links[:2] == [0, 4]
        assert "Click (javascript:alert)" in links[2]
        assert "x (http://evil.example/c)" in links[2]
        assert "here (http://evil.example/a)" in links[2]


def test_a_document_cannot_act_on_the_page(browser, server, answers):
    """What it says is shown as it stands: nothing is loaded, run or linked."""
    made = answers("What did the cook Olaf Brandt serve on the Skua?")
    n = next(c["n"] for c in made["citations"] if "Olaf" in c["quote"])
    with opened(browser, server, f"#/source/{made['id']}/{n}") as (page, heard):
        assert "<script>alert(1)</script>" in own_words(page)
        assert "<script>alert(1)</script>" in page.locator("article.turn .answer").inner_text()
        assert page.locator("main img[src^='http'], main script, main a[href^='javascript']").count() == 0
        assert (heard.outside(server.address), heard.dialogs) == ([], [])


def test_a_draft_is_grey_and_stopping_keeps_what_was_checked(browser, writing):
    """The sentence being written is read out to nobody; stopped, the answer says so, is kept, and the next question can be asked."""
    with opened(browser, writing) as (page, _):
        page.get_by_label("How to search").select_option("mix")
        turn = ask(page, "How are the Skua and the Northern Line connected?")
        draft = turn.locator(".draft")
        draft.wait_for(timeout=300_000)  # how the model runs best may have to be measured first
        assert draft.get_attribute("aria-hidden") == "true"
        assert draft.evaluate("d => getComputedStyle(d).color") != turn.evaluate("t => getComputedStyle(t).color")
        page.get_by_role("button", name="Stop").click()
        turn.locator(".badge").wait_for()
        assert turn.get_attribute("data-state") == "stopped"
        assert turn.locator(".badge").inner_text().startswith("Stopped")
        assert turn.locator(".draft").count() == 0
        assert page.locator("div[role=status]").inner_text().startswith("Answer stopped")
        with writing.client() as door:
            until(lambda: door.get("/api/status").json()["questions"]["active"] == 0)
        page.get_by_label("Your question").fill("Who?")
        assert page.get_by_role("button", name="Ask", exact=True).is_enabled()


def test_an_answer_goes_on_while_another_view_is_open(browser, server):
    """Leaving the questions ends nothing: the answer is there on return, and after a reload."""
    with opened(browser, server) as (page, _):
        ask(page, "Who is the mate of the Skua?")
        page.get_by_role("link", name="Status").click()
        page.locator(".turn").first.wait_for(state="detached")
        page.get_by_role("link", name="Ask", exact=True).click()
        page.locator(ANSWERED).wait_for()
        place = page.url
        page.reload()
        page.locator(ANSWERED).wait_for()
        assert page.url == place
        assert "Lars Holm" in page.locator("article.turn").inner_text()
        page.get_by_role("link", name="New conversation").first.click()
        page.locator("article.turn").wait_for(state="detached")
        page.get_by_role("link", name=re.compile("Who is the mate")).first.click()
        page.locator(ANSWERED).wait_for()
        assert page.url == place


def test_a_failure_says_what_happened_and_what_mends_it(browser, server):
    """Here the server cannot be reached; the question can be asked again."""
    with opened(browser, server, allowed="Failed to load") as (page, _):
        page.route("**/api/ask", lambda route: route.abort())
        turn = ask(page, "Who is the mate of the Skua?")
        failure = turn.get_by_role("alert")
        failure.wait_for()
        assert "does not answer" in failure.inner_text()
        assert "localrag serve" in failure.inner_text()
        page.unroute("**/api/ask")
        turn.get_by_role("button", name="Try again").click()
        page.locator(ANSWERED).wait_for()


def test_a_conversation_is_deleted_after_a_question(browser, server, folder):
    """By keyboard alone; declined, it stays; agreed, it leaves the list and the page, and no file of the index has its words."""
    question = "Who is the mate of the Skua, Quorlim Zabrinsky?"
    with opened(browser, server, allowed="404") as (page, _):
        ask(page, question).locator("footer.foot").wait_for()
        place = page.url
        button = page.get_by_role("button", name=f"Delete conversation: {question}")
        page.get_by_role("link", name=re.compile("Quorlim")).focus()
        page.keyboard.press("Tab")
        assert focused(page) == f"Delete conversation: {question}"
        page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog", name="Delete this conversation?")
        assert question in dialog.inner_text()
        assert focused(page) == "Cancel"
        assert violations(page) == []
        page.keyboard.press("Enter")
        dialog.wait_for(state="hidden")
        assert focused(page) == f"Delete conversation: {question}"
        assert b"Quorlim" in b"".join(f.read_bytes() for f in (folder / ".localrag").iterdir() if f.is_file())

        page.keyboard.press("Enter")
        dialog.wait_for()
        page.keyboard.press("Tab")
        assert focused(page) == "Delete"
        page.keyboard.press("Enter")
        dialog.wait_for(state="hidden")
        button.wait_for(state="detached")
        assert page.locator("article.turn").count() == 0
        assert page.locator("div[role=status]").inner_text() == "The conversation is deleted."
        assert "New conversation" in focused(page)
        for file in (f for f in (folder / ".localrag").rglob("*") if f.is_file()):
            assert b"Quorlim" not in file.read_bytes(), file
        page.goto(place)
        page.get_by_role("alert").wait_for()
        assert "There is no conversation" in page.get_by_role("alert").inner_text()


def test_no_conversation_is_deleted_while_a_question_is_answered(writing):
    """It reads the index, and its answer may belong to the conversation."""
    question = {"question": "How are the Skua and the Northern Line connected?", "mode": "mix"}
    with writing.client() as door, writing.client() as other:
        with door.stream("POST", "/api/ask", json=question) as stream:
            lines = stream.iter_lines()  # held: once it is gone, the connection is closed and the question ends
            next(lines)
            refused = other.delete("/api/conversations/1")
        assert (refused.status_code, refused.json()["error"]["message"]) == (409, "A question is being answered.")


def test_the_list_of_conversations_follows_other_tabs_and_keeps_programs_apart(browser, server):
    """Once the tab is looked at again."""
    with opened(browser, server) as (page, _), server.client() as door:
        page.get_by_label("Your question").wait_for()
        asked(door, "Who was asked for elsewhere?")
        by_program = {"model": "localrag:basic", "messages": [{"role": "user", "content": "Who was asked for by a program?"}]}
        assert door.post("/v1/chat/completions", json=by_program).status_code == 200
        page.evaluate("window.dispatchEvent(new Event('focus'))")
        page.get_by_role("link", name="Who was asked for elsewhere?").wait_for()
        assert not page.get_by_role("link", name="Who was asked for by a program?").is_visible()
        page.get_by_role("navigation", name="Conversations").get_by_text("Asked by programs").click()
        page.get_by_role("link", name="Who was asked for by a program?").first.wait_for()


def test_without_the_link_nothing_is_shown_until_a_key_is_given(browser, server):
    """A wrong key is refused in words; the right one opens the page, and neither stays in the address."""
    with opened(browser, server, token=False, allowed="401") as (page, _):
        assert page.locator("h1").inner_text() == "Open with the link"
        assert page.locator("nav").count() == 0
        page.get_by_label("Link or key").fill("wrong")
        page.get_by_role("button", name="Open").click()
        page.get_by_role("alert").wait_for()
        assert "The key is wrong." in page.get_by_role("alert").inner_text()
        page.get_by_label("Link or key").fill(f"{server.address}/#k={server.key}")
        page.get_by_role("button", name="Open").click()
        page.get_by_label("Your question").wait_for()
        assert server.key not in page.url


def test_language_and_colours_are_kept(browser, server):
    """Chosen once, they hold after a reload."""
    with opened(browser, server) as (page, _):
        page.get_by_label("Settings").click()
        page.get_by_label("Language").select_option("de")
        page.get_by_label("Farben").select_option("dark")
        assert page.locator("h1").inner_text() == "Fragen Sie Ihre Dokumente"
        page.reload()
        page.get_by_label("Ihre Frage").wait_for()
        assert page.evaluate("[document.documentElement.lang, document.documentElement.dataset.theme]") == ["de", "dark"]


def test_the_keyboard_alone_is_enough(browser, server):
    """From the skip link to the answer's first source and back, and the heading has the focus after a change of view."""
    with opened(browser, server) as (page, _):
        page.get_by_label("Your question").fill("Who bought the ferry Skua?")
        page.keyboard.press("Enter")
        page.locator(ANSWERED).wait_for()
        page.locator("a.skip").focus()
        assert page.locator("a.skip").bounding_box()["y"] >= 0
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        for _ in range(30):
            page.keyboard.press("Tab")
            if focused(page).startswith("Source 1:"):
                break
        assert focused(page).startswith("Source 1:")
        page.keyboard.press("Enter")
        page.locator(".source .state").wait_for()
        page.keyboard.press("Escape")
        page.locator(".source").wait_for(state="detached")
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.id") == "question"
        page.goto(f"{server.address}/#/nowhere")
        page.get_by_role("heading", name="This page does not exist").wait_for()


@LOOKS
def test_everybody_can_read_it(browser, server, answers, scheme, width):
    """No finding of axe-core, and no sideways scrolling on a narrow screen: empty, with an answer, with its source."""
    made = answers("Who bought the ferry Skua?")
    for place in ("#/ask/new", f"#/ask/{made['conversation']}", f"#/source/{made['id']}/1"):
        with opened(browser, server, place, width=width, scheme=scheme) as (page, _):
            if "source" in place:
                page.locator("mark").first.wait_for()
            elif "new" not in place:
                page.locator("article.turn footer").wait_for()
            assert_accessible(page, width)
