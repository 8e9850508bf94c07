//! The views of a page of logs: what each says first, what can be chosen, and that nothing is cut, hidden or out of place.

use super::driver::{Browser, BrowserWindow, DESK};
use super::pages::{page_of, whole_page_of};
use crate::fixture::{Fixture, case, corpus};
use serde_json::{Value, json};
use std::path::PathBuf;

const PHONE: BrowserWindow = BrowserWindow {
    width: 390,
    height: 844,
    is_dark: false,
};

/// Returns the text of the first element of a kind.
fn text_of(browser: &Browser, selector: &str) -> String {
    browser.text(&format!(
        "const e = document.querySelector({}); return e ? e.textContent : ''",
        json!(selector)
    ))
}

#[test]
#[ignore = "needs chromium and chromedriver"]
fn one_command_makes_every_view() {
    let browser = Browser::start(DESK);
    let fixture = Fixture::new();
    let page = whole_page_of(&fixture, &corpus(), &[]);
    browser.open(&page, "");
    for (view, says) in [
        ("#overview", "sessions cost"),
        ("#sessions", "sessions."),
        ("#audit", "compacted"),
        ("#compare", "these sessions would cost"),
        ("#memories", "memor"),
        ("#notes", "Notes of"),
    ] {
        browser.go(view);
        let lead = text_of(&browser, ".lead");
        assert!(lead.contains(says), "{view}: {lead}");
        let text = browser.text("return document.getElementById('main').textContent");
        assert!(!text.contains("undefined") && !text.contains("NaN"), "{view}");
        assert_eq!(
            browser.number("return document.documentElement.scrollWidth - innerWidth"),
            0.0,
            "{view}"
        );
    }
    browser.go("#tune");
    assert!(text_of(&browser, ".verdict").len() > 20, "the verdict comes first");
    browser.check_quiet(&page);
    // A view that was not asked for says how to get it.
    let short = page_of(&fixture, &case("boundary-auto"));
    browser.open(&short, "#tune");
    assert!(text_of(&browser, ".lead").contains("backcast report --tune"));
    browser.check_quiet(&short);
}

/// Writes sessions of three projects, one of them on Windows, over several days; returns their folder.
fn three_projects(fixture: &Fixture) -> PathBuf {
    for (number, project) in ["/home/dev/pear", "/home/dev/plum/deep", "C:\\work\\quince"]
        .iter()
        .enumerate()
    {
        let mut log = String::new();
        for call in 0..=number {
            let record = json!({"type": "assistant", "uuid": format!("a{number}{call}"), "parentUuid": Value::Null, "sessionId": format!("s{number}"),
                "timestamp": format!("2026-01-0{}T03:04:05.000Z", 2 + number + call), "cwd": project, "version": "2.1.30", "requestId": format!("r{number}{call}"),
                "message": {"id": format!("m{number}{call}"), "role": "assistant", "model": "claude-opus-4-5", "content": [{"type": "text", "text": "done"}],
                    "usage": {"input_tokens": 50_000 * (number + 1), "output_tokens": 500}}});
            log += &format!("{record}\n");
        }
        fixture.write(&format!("three/s{number}.jsonl"), log);
    }
    fixture.path("three")
}

#[test]
#[ignore = "needs chromium and chromedriver"]
fn the_overview_follows_the_days_and_the_folder_that_are_chosen() {
    let browser = Browser::start(DESK);
    let fixture = Fixture::new();
    let logs = three_projects(&fixture);
    let page = page_of(&fixture, &logs);
    browser.open(&page, "");
    let figure = |name: &str| {
        browser.text(&format!(
            "return [...document.querySelectorAll('.figures dt')].find((e) => e.textContent === {}).nextSibling.firstChild.textContent",
            json!(name)
        ))
    };
    let stats = fixture.stats(&logs, &["--by", "project"]);
    let whole = (figure("Cost"), figure("Sessions"), figure("Calls"));
    let exact = |key: &str| stats["totals"][key].as_f64().expect("a number");
    assert_eq!(whole.0, format!("${:.2}", exact("cost_micro_usd") / 1e6));
    assert_eq!(whole.2, exact("responses").to_string(), "the calls of stats");
    let lead = text_of(&browser, ".lead");
    assert!(
        lead.contains(&whole.0) && lead.contains("3 sessions in 3 projects"),
        "{lead}"
    );
    // A folder without a project of its own stands for all below it.
    browser.go("#overview?project=%2Fhome%2Fdev");
    assert_eq!(figure("Sessions"), "2");
    browser.go("#overview");
    // The tree shows what `stats --by project` counts, folder by folder.
    browser.js("document.querySelectorAll('.tree button[aria-expanded=false]').forEach((e) => e.click())");
    let first = &stats["rows"][0];
    let path = first["project"].as_str().expect("a path");
    let row = format!(
        "const row = [...document.querySelectorAll('.tree tr')].find((e) => e.dataset.path === {})",
        json!(path)
    );
    let cost = browser.text(&format!("{row}; return row.children[1].textContent"));
    let dollars = first["cost_micro_usd"].as_f64().expect("a cost") / 1e6;
    assert_eq!(cost, format!("${dollars:.2}"), "{path}");
    // Choosing it is an address; figures, sessions and sentence follow.
    browser.js(&format!("{row}; row.querySelector('a').click()"));
    browser.wait("return location.hash.includes('project=')");
    assert_eq!(figure("Cost"), format!("${dollars:.2}"));
    assert_eq!(figure("Sessions"), first["sessions"].to_string());
    browser.js("[...document.querySelectorAll('#top nav a')].find((e) => e.textContent === 'Sessions').click()");
    browser.wait("return !!document.querySelector('#session-list')");
    assert!(browser.text("return location.hash").contains("project="));
    assert!(text_of(&browser, ".lead").starts_with(&format!("{} session", first["sessions"])));
    // The table of sessions has the same cost and the same calls.
    browser.go("#sessions");
    let summed = |head: &str| {
        browser.number(&format!(
            "const at = [...document.querySelectorAll('#session-list thead th')].findIndex((e) => e.textContent.startsWith({}));
             return [...document.querySelectorAll('#session-list tbody tr')].reduce((sum, row) => sum + Number(row.children[at].textContent.replace(/[$,]/g, '')), 0)",
            json!(head)
        ))
    };
    assert_eq!(summed("Calls"), exact("responses"));
    assert!((summed("Cost") - exact("cost_micro_usd") / 1e6).abs() < 0.02);
    // Days: the sum over two halves is the whole.
    let calls = |place: &str| {
        browser.go(place);
        let text = figure("Calls").replace(',', "");
        text.parse::<f64>().expect("a number")
    };
    let halves = calls("#overview?until=2026-01-03") + calls("#overview?since=2026-01-04");
    assert_eq!(halves, calls("#overview"));
    // What is counted from the calls of a choice is what was counted of all of them.
    browser.go("#overview?since=2000-01-01");
    let [whole, chosen] = ["runs[0].overview", "chosenFullness(runs[0], chosenUsage())"]
        .map(|told| browser.js(&format!("const told = {told}; return [told.fullness, told.windowless]")));
    assert_eq!(whole, chosen);
    assert!(browser.number("return document.querySelectorAll('#fullness .column').length") > 0.0);
    browser.go("#overview?since=2031-01-01");
    assert!(text_of(&browser, ".lead").contains("No call"));
    browser.check_quiet(&page);
}

#[test]
#[ignore = "needs chromium and chromedriver"]
fn direct_links_begin_at_the_top() {
    let browser = Browser::start(DESK);
    let fixture = Fixture::new();
    let page = whole_page_of(&fixture, &corpus(), &[]);
    for view in [
        "#overview",
        "#sessions",
        "#audit",
        "#tune",
        "#compare",
        "#memories",
        "#notes",
    ] {
        browser.open(&page, view);
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert_eq!(browser.number("return scrollY"), 0.0, "{view}");
        let clash = browser.js("return !!document.getElementById(location.hash.slice(1))");
        assert_eq!(clash, json!(false), "{view} is the id of an element");
    }
}

#[test]
#[ignore = "needs chromium and chromedriver"]
fn small_plots_mark_boundaries_where_they_are() {
    let browser = Browser::start(DESK);
    let fixture = Fixture::new();
    // A fork: its first call has number 3, because the calls before it belong to another session.
    let page = page_of(&fixture, &case("forked-copies"));
    browser.open(&page, "#sessions");
    let marks = browser.js(
        "const run = runs[0];
         const row = [...run.drawn].find((row) => chainsOf(run, row)[0].call[0] === 3);
         const chain = chainsOf(run, row)[0];
         const id = run.sessions.get(row, 'session');
         run.boundaries = new Rows({rows: 2, columns: {session: {all: id}, agent: {all: ''}, call: [3, 4]}});
         run.indexes = {};
         const small = [...windowSpark(run, row).querySelectorAll('line')].map((line) => Number(line.getAttribute('x1')));
         return {count: chain.count, small, places: [3, 4].map(callPlaces(chain)), large: chainFacts(run, id, chain).boundaries.map((one) => one.at)}",
    );
    assert_eq!(marks["count"], 1);
    assert_eq!(marks["places"], json!([0, 1]));
    assert_eq!(marks["large"], marks["places"]);
    let small = marks["small"].as_array().expect("marks");
    assert!(
        small
            .iter()
            .all(|x| x.as_f64().is_some_and(|x| (0.0..=120.0).contains(&x))),
        "{marks}"
    );
}

#[test]
#[ignore = "needs chromium and chromedriver"]
fn days_have_years_and_gaps_are_marked() {
    let browser = Browser::start(DESK);
    let fixture = Fixture::new();
    let page = page_of(&fixture, &corpus());
    browser.open(&page, "");
    let labels = browser.js("return [...document.querySelectorAll('#days .axes text')].map((e) => e.textContent).filter((text) => !text.startsWith('$'))");
    let labels = labels.as_array().expect("labels");
    assert!(labels.len() > 2);
    for label in labels.iter().filter_map(Value::as_str) {
        assert!(label.starts_with("20") && label.len() == 10, "{label}");
    }
    assert!(browser.number("return document.querySelectorAll('#days .gap').length") > 0.0);
    assert!(text_of(&browser, "#days .gap title").starts_with("no calls for "));
    // Distances are times: as many columns as weeks, with a call or without.
    let [first, last] = [0, 1].map(|at| browser.text(&format!("return usageRange()[{at}]")));
    let day = |text: &str| text.parse::<jiff::civil::Date>().expect("a day");
    let days = day(&first).until(day(&last)).expect("a span").get_days();
    let columns = browser.number("return document.querySelectorAll('#days .column').length");
    assert!(
        (columns - f64::from(days) / 7.0).abs() < 2.5,
        "{columns} columns for {days} days"
    );
}

#[test]
#[ignore = "needs chromium and chromedriver"]
fn words_and_numbers_are_those_of_the_command_line() {
    let browser = Browser::start(DESK);
    let fixture = Fixture::new();
    let page = page_of(&fixture, &case("boundary-auto"));
    browser.open(&page, "#audit");
    assert_eq!(browser.text("return say.tokens(2.5e9)"), "2.50B");
    assert_eq!(browser.text("return say.tokens(2.5e6)"), "2.50M");
    // A path is cut at its front, whichever sign parts it.
    for (path, short) in [
        ("C:\\Users\\dev\\work\\orchard", "…\\work\\orchard"),
        ("/home/dev/projects/orchard", "…/projects/orchard"),
        ("D:\\orchard", "D:\\orchard"),
    ] {
        let shown = browser.js(&format!(
            "const e = pathText({}); document.body.append(e); const style = getComputedStyle(e); return [e.textContent, e.title, style.direction, style.textOverflow]",
            json!(path)
        ));
        assert_eq!(shown, json!([short, path, "rtl", "ellipsis"]));
    }
    // Every verdict that is shown is explained.
    let verdicts = browser.js("return data.audits.flatMap((audit) => audit.thresholds.map((row) => row.verdict))");
    let words = browser.js("return [...document.querySelectorAll('.words dt')].map((e) => e.textContent)");
    for verdict in verdicts.as_array().expect("verdicts") {
        assert!(
            words.as_array().expect("words").contains(verdict),
            "{verdict} in {words}"
        );
    }
    browser.check_quiet(&page);
}

#[test]
#[ignore = "needs chromium and chromedriver"]
fn notes_show_no_raw_markup() {
    let browser = Browser::start(DESK);
    let fixture = Fixture::new();
    let page = page_of(&fixture, &case("boundary-auto"));
    browser.open(&page, "");
    let text = "# Heading\n_In italics_\n\n1. first **bold**\n2. second [words](src/a.rs)\n   - below `code_with_marks`\n- [x] done\n- [ ] open\n\n> said\n\n| a | b |\n| --- | --- |\n| 1 | **2** |\n\n<!-- hidden -->\nsnake_case_name and 2 * 3 * 4 <b>as typed</b>\n";
    let shown = browser.js(&format!(
        "const e = prose({}, 3); const count = (kind) => e.querySelectorAll(kind).length; return {{text: e.textContent, ol: count('ol > li'), below: count('ol ul > li'), strong: count('strong'), em: count('em'), code: count('code'), quote: count('blockquote'), cells: count('td'), headings: count('h3'), b: count('b'), ticks: count('.tick')}}",
        json!(text)
    ));
    for mark in [
        "**", "`", "](", "[x]", "[ ]", "<!--", "hidden", "| ---", "# H", "> said",
    ] {
        assert!(
            !shown["text"].as_str().expect("text").contains(mark),
            "{mark} in {shown}"
        );
    }
    for (kind, count) in [
        ("ol", 2),
        ("below", 1),
        ("strong", 2),
        ("em", 1),
        ("code", 1),
        ("quote", 1),
        ("cells", 2),
        ("headings", 1),
        ("b", 0),
        ("ticks", 2),
    ] {
        assert_eq!(shown[kind], count, "{kind}: {shown}");
    }
    let shown = shown["text"].as_str().expect("text");
    assert!(
        shown.contains("snake_case_name and 2 * 3 * 4 <b>as typed</b>"),
        "{shown}"
    );
    assert_eq!(
        browser.text("return plainText('- **Fix** the [reader](a.rs) of `logs`')"),
        "Fix the reader of logs"
    );
}

#[test]
#[ignore = "needs chromium and chromedriver"]
fn comparisons_list_only_sessions_that_differ() {
    let browser = Browser::start(DESK);
    let fixture = Fixture::new();
    let page = whole_page_of(&fixture, &corpus(), &[]);
    browser.open(&page, "#compare");
    let rows = browser.js("return [...document.querySelectorAll('.paged tbody tr')].map((row) => [...row.children].map((cell) => cell.textContent))");
    let rows = rows.as_array().expect("rows");
    assert!(!rows.is_empty());
    for row in rows {
        let cells = row.as_array().expect("cells");
        let is_same = cells[1] == "$0.00" && cells[2] == "0" && cells[3] == cells[4];
        assert!(!is_same, "{row}");
    }
    let about = text_of(&browser, "#compare-0-sessions .about");
    assert!(about.contains("not listed"), "{about}");
    // The bounds of a sweep stand apart from its policies.
    browser.go("#tune");
    assert!(browser.number("return document.querySelectorAll('section[id$=bounds] table').length") >= 1.0);
    assert_eq!(
        browser.number("return [...document.querySelectorAll('section[id$=front] .scroll')].filter((e) => e.nextElementSibling && e.nextElementSibling.matches('.paged')).length"),
        0.0
    );
}

#[test]
#[ignore = "needs chromium and chromedriver"]
fn a_sweep_shows_its_verdict_its_curve_and_its_columns() {
    let browser = Browser::start(DESK);
    let fixture = Fixture::new();
    let logs = corpus().display().to_string();
    fixture.run(["tune", &logs, "-q", "--html", "tune.html"]).success();
    let json = fixture.run(["tune", &logs, "-q", "-f", "json"]).success().json();
    let page = fixture.path("tune.html");
    browser.open(&page, "#tune");
    for (number, window) in json["windows"].as_array().expect("windows").iter().enumerate() {
        if window["sessions_compared"].as_u64() < Some(5) {
            continue;
        }
        let sentence = window["sentence"].as_str().expect("a sentence");
        let part = format!("#tune-{number}-choice");
        assert_eq!(text_of(&browser, &format!("{part} .verdict")), sentence);
        let is_set = window["verdict"] == "set";
        let buttons = browser.number(&format!("return document.querySelectorAll('{part} button').length"));
        assert_eq!(buttons > 0.0, is_set, "a button only for a verdict that is sure");
        let said = [&window["grounds"], &window["advice"]];
        for ground in said.into_iter().filter_map(Value::as_array).flatten() {
            assert!(
                text_of(&browser, &part).contains(ground.as_str().expect("text")),
                "{ground}"
            );
        }
        assert!(
            browser.number(&format!(
                "return document.querySelectorAll('#tune-{number}-curve .curve').length"
            )) >= 2.0
        );
        let heads = browser.js(&format!(
            "return [...document.querySelectorAll('#tune-{number}-front thead button')].map((e) => e.textContent)"
        ));
        for head in ["Saved", "Misses per 100", "Compactions", "Mean window", "Blocks"] {
            assert!(
                heads.as_array().expect("heads").contains(&json!(head)),
                "{head} in {heads}"
            );
        }
    }
    browser.check_quiet(&page);
}

#[test]
#[ignore = "needs chromium and chromedriver"]
fn costs_are_on_the_screen_of_a_phone() {
    let browser = Browser::start(PHONE);
    let fixture = Fixture::new();
    let page = whole_page_of(&fixture, &corpus(), &[]);
    browser.open(&page, "");
    let right_of_cost = "const heads = [...document.querySelectorAll('th')].filter((e) => ['Cost', 'Cost ↓', 'B − A'].includes(e.textContent)); return heads.length ? Math.max(...heads.map((e) => e.getBoundingClientRect().right)) : -1";
    for view in ["#overview", "#sessions", "#compare"] {
        browser.go(view);
        let right = browser.number(right_of_cost);
        assert!(right > 0.0 && right <= 390.0, "{view}: cost ends at {right}");
    }
    for view in [
        "#overview",
        "#sessions",
        "#audit",
        "#tune",
        "#compare",
        "#memories",
        "#notes",
    ] {
        browser.go(view);
        assert_eq!(
            browser.number("return document.documentElement.scrollWidth - innerWidth"),
            0.0,
            "{view}"
        );
    }
    browser.check_quiet(&page);
}
