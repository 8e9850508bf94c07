//! The page in a real browser: Chromium without a window, driven over WebDriver.

mod driver;
mod pages;
mod views;

use crate::fixture::{Fixture, case};
use driver::{Browser, BrowserWindow, DESK};
use pages::{folder_of_everything, hostile_page, page_of};
use serde_json::json;
use std::ffi::OsStr;
use std::time::Duration;

/// Sums the windows of the chain that the session view shows.
const WINDOWS: &str = "const view = opened.view; return view.chain.input.reduce((a, b) => a + b, 0)";

#[test]
#[ignore = "needs chromium and chromedriver"]
fn the_page_shows_the_figures_of_the_outputs() {
    let browser = Browser::start(DESK);
    let fixture = Fixture::new();
    let logs = case("boundary-auto");
    let page = page_of(&fixture, &logs);
    let out = fixture.path("run");
    let args = [
        OsStr::new("replay"),
        logs.as_os_str(),
        OsStr::new("-q"),
        OsStr::new("--out"),
        out.as_os_str(),
    ];
    fixture.run(args).success();
    let mut rounds = csv::Reader::from_path(out.join("rounds.csv")).expect("rounds");
    let header = rounds.headers().expect("a header").clone();
    let column = |name: &str| header.iter().position(|known| known == name).expect("a column");
    let rows = rounds.records().map(|row| row.expect("a row")).collect::<Vec<_>>();
    browser.open(&page, "#sessions");
    browser.js("document.querySelector('tbody a').click()");
    browser.wait("return !!document.querySelector('.sawtooth .layer')");
    let session = browser.text("return opened.view.session");
    let main = rows
        .iter()
        .filter(|row| row[column("agent")].is_empty() && row[column("session")] == *session);
    let main = main.collect::<Vec<_>>();
    let sum = |name: &str| {
        main.iter()
            .map(|row| row[column(name)].parse::<f64>().unwrap_or(0.0))
            .sum::<f64>()
    };
    for (name, script) in [
        ("input", "opened.view.chain.input"),
        ("recorded_input", "opened.view.chain.recorded"),
        ("tool_results", "opened.view.chain.tool_results"),
        ("cache_read", "opened.view.chain.cacheRead"),
        ("cost_micro_usd", "opened.view.chain.cost"),
        ("call", "opened.view.chain.call"),
    ] {
        let shown = browser.number(&format!("return {script}.reduce((a, b) => a + b, 0)"));
        assert_eq!(shown, sum(name), "{name}");
    }
    assert_eq!(
        browser.number("return document.querySelectorAll('#calls tbody tr').length"),
        main.len().min(50) as f64
    );
    // What is drawn reaches up to the largest window.
    let top = browser.number(
        "const boxes = [...document.querySelectorAll('.layer')].map((one) => one.getBBox()); return Math.max(...boxes.map((box) => box.y + box.height)) - Math.min(...boxes.map((box) => box.y))",
    );
    assert!(top > 100.0, "layers are {top} high");
    assert!(
        browser.number("return document.querySelectorAll('.m-made').length") >= 2.0,
        "marks and their legend"
    );
    browser.go("#overview");
    let cost = browser.text("return [...document.querySelectorAll('.figures dt')].find((e) => e.textContent === 'Cost').nextSibling.textContent");
    assert!(cost.starts_with('$'), "{cost}");
    assert!(browser.number("return document.querySelectorAll('.column').length") > 0.0);
    browser.check_quiet(&page);
}

#[test]
#[ignore = "needs chromium and chromedriver"]
fn plots_zoom_and_tables_link_to_them() {
    let browser = Browser::start(DESK);
    let fixture = Fixture::new();
    let page = page_of(&fixture, &case("long-session"));
    browser.open(&page, "#sessions");
    browser.js("document.querySelector('tbody a').click()");
    browser.wait("return !!document.querySelector('.sawtooth svg')");
    let count = browser.number("return opened.view.chain.count");
    let seen = || browser.number("return opened.view.plot.to - opened.view.plot.from");
    assert_eq!(seen(), count);
    // Dragging zooms into the range, a double click shows all again.
    let [left, top, width, height] = browser.place(".sawtooth svg");
    let middle = top + height / 2.0;
    browser.mouse(
        &[
            (left + width * 0.4, middle),
            (left + width * 0.5, middle),
            (left + width * 0.6, middle),
        ],
        true,
    );
    assert!(seen() < count * 0.4, "{} of {count}", seen());
    assert!(browser.text("return location.hash").contains("from="));
    browser.js("document.querySelector('.sawtooth svg').dispatchEvent(new MouseEvent('dblclick', {bubbles: true}))");
    assert_eq!(seen(), count);
    // Hovering shows numbers.
    browser.mouse(&[(left + width * 0.5, middle)], false);
    let shown = browser.text("return document.querySelector('.where').textContent");
    assert!(shown.starts_with("Call "), "{shown}");
    // From the table to the plot, and an address that leads to the same place.
    browser.js("document.querySelectorAll('#calls tbody a')[3].click()");
    browser.wait("return opened.view.plot.cursor === 3");
    let address = browser.text("return location.hash");
    browser.open(&page, &address);
    assert_eq!(browser.number("return opened.view.plot.cursor"), 3.0);
    assert!(
        browser
            .js("return document.querySelector('#calls tr.marked a').textContent === '3'")
            .as_bool()
            .unwrap()
    );
    // A mark on the plot opens its boundary.
    if browser.number("return document.querySelectorAll('.mark[tabindex]').length") > 0.0 {
        browser.js("document.querySelector('.mark[tabindex]').dispatchEvent(new MouseEvent('click', {bubbles: true}))");
        browser.wait("return document.activeElement.classList.contains('boundary')");
    }
    browser.check_quiet(&page);
}

#[test]
#[ignore = "needs chromium and chromedriver"]
fn every_step_works_with_the_keyboard_alone() {
    const RIGHT: char = '\u{e014}';
    const TAB: char = '\u{e004}';
    const ENTER: char = '\u{e007}';
    let browser = Browser::start(DESK);
    let fixture = Fixture::new();
    let page = page_of(&fixture, &case("long-session"));
    browser.open(&page, "");
    // The first stop leads past the header.
    browser.press(&TAB.to_string());
    assert_eq!(browser.text("return document.activeElement.className"), "skip");
    browser.press(&ENTER.to_string());
    assert_eq!(browser.text("return document.activeElement.id"), "main");
    browser.go("#sessions");
    browser.js("document.querySelector('tbody a').focus()");
    browser.press(&ENTER.to_string());
    browser.wait("return !!document.querySelector('.sawtooth svg')");
    browser.js("document.querySelector('.sawtooth').focus()");
    browser.press(&format!("{RIGHT}{RIGHT}{RIGHT}"));
    assert_eq!(browser.number("return opened.view.plot.cursor"), 2.0);
    let count = browser.number("return opened.view.chain.count");
    browser.press("++");
    assert!(browser.number("return opened.view.plot.to - opened.view.plot.from") < count / 2.0);
    browser.press("0");
    assert_eq!(
        browser.number("return opened.view.plot.to - opened.view.plot.from"),
        count
    );
    // Enter goes to the row of the chosen call.
    browser.press(&ENTER.to_string());
    assert_eq!(browser.text("return document.activeElement.textContent"), "2");
    // Columns sort by key, and say so.
    browser.js("document.querySelector('#calls thead th:nth-child(6) button').focus()");
    browser.press(&ENTER.to_string());
    assert_eq!(
        browser.text("return document.querySelector('#calls thead th:nth-child(6)').getAttribute('aria-sort')"),
        "descending"
    );
    browser.check_quiet(&page);
}

#[test]
#[ignore = "needs chromium and chromedriver"]
fn every_view_of_a_folder_is_drawn() {
    let browser = Browser::start(DESK);
    let fixture = Fixture::new();
    let folder = folder_of_everything(&fixture);
    fixture
        .run(["report", &folder.display().to_string(), "-q", "--with-text"])
        .success();
    let page = folder.join("report.html");
    browser.open(&page, "");
    let views = browser
        .text("return [...document.querySelectorAll('#top nav a')].map((e) => e.getAttribute('href')).join(' ')");
    assert_eq!(views, "#overview #sessions #audit #tune #compare #memories #notes");
    for (view, holds) in [
        ("#overview", "What filled the window"),
        ("#sessions", "replayed with policy"),
        ("#audit", "Thresholds by version"),
        ("#tune", "window.percent=70"),
        ("#compare", "Session by session"),
        ("#memories", "run the linter before"),
        ("#notes", "Linting"),
    ] {
        browser.go(view);
        let text = browser.text("return document.getElementById('main').textContent");
        assert!(text.contains(holds), "{view}");
        assert!(
            !text.contains("undefined") && !text.contains("NaN") && !text.contains("[object"),
            "{view}: {text}"
        );
        // Headings lead through the page, every plot and table has a name, and nothing is wider than the window.
        assert_eq!(
            browser.number(
                "return [...document.querySelectorAll('.plot svg')].filter((e) => !e.getAttribute('aria-label')).length"
            ),
            0.0
        );
        assert!(
            browser.number("return document.querySelectorAll('main h1').length") >= 1.0,
            "{view}"
        );
        assert_eq!(
            browser.number("return [...document.querySelectorAll('table')].filter((e) => !e.caption).length"),
            0.0
        );
        assert_eq!(
            browser.number("return document.documentElement.scrollWidth - innerWidth"),
            0.0,
            "{view}"
        );
        let ids = browser.js("const ids = [...document.querySelectorAll('[id]')].map((e) => e.id); return ids.filter((id, at) => ids.indexOf(id) !== at)");
        assert_eq!(ids, json!([]), "{view}");
    }
    // Without texts the overview of a document is the same.
    browser.go("#overview");
    let whole = browser.text("return document.getElementById('main').textContent");
    fixture
        .run(["report", &folder.display().to_string(), "-q", "-o", "bare.html"])
        .success();
    let bare = fixture.path("bare.html");
    browser.check_quiet(&page);
    browser.open(&bare, "#overview");
    assert_eq!(
        browser.text("return document.getElementById('main').textContent"),
        whole
    );
    browser.check_quiet(&bare);
    browser.open(&page, "");
    // A run read from Parquet is drawn as one from CSV.
    for run in [0, 1] {
        browser.go(&format!("#sessions/{run}"));
        browser.js("document.querySelector('tbody a').click()");
        browser.wait("return !!(opened.view && opened.view.chain)");
        assert!(browser.number(WINDOWS) > 0.0);
    }
    // A point of a sweep has an address.
    browser.go("#tune?point=0.1");
    assert!(
        browser
            .js("return !!document.querySelector('tr.marked')")
            .as_bool()
            .unwrap()
    );
    // On paper all views follow each other.
    browser.go("#overview");
    browser.js("dispatchEvent(new Event('beforeprint'))");
    assert_eq!(
        browser.number("return document.querySelectorAll('.printed').length"),
        7.0
    );
    browser.js("dispatchEvent(new Event('afterprint'))");
    assert_eq!(
        browser.number("return document.querySelectorAll('.printed').length"),
        0.0
    );
    browser.check_quiet(&page);
}

#[test]
#[ignore = "needs chromium and chromedriver"]
fn hostile_content_runs_no_script() {
    let browser = Browser::start(DESK);
    let fixture = Fixture::new();
    let page = hostile_page(&fixture);
    browser.open(&page, "");
    let places = [
        "#overview",
        "#sessions",
        "#audit",
        "#memories",
        "#notes",
        "#compare",
        "#tune",
        "#session/0/%3Cimg%20src%3Dx%20onerror%3D%22window.ran%3D1%22%3E",
    ];
    for place in places {
        browser.go(place);
        browser.js("for (const details of document.querySelectorAll('details')) details.open = true");
        assert_eq!(browser.js("return window.ran === undefined"), json!(true), "{place}");
        assert_eq!(
            browser.number(
                "return document.querySelectorAll('#main img, #main iframe, #main script, #main object').length"
            ),
            0.0
        );
        let links = browser.js("return [...document.querySelectorAll('a')].map((e) => e.getAttribute('href')).filter((href) => !href.startsWith('#'))");
        assert_eq!(links, json!([]), "{place}");
        let handlers = browser.js("return [...document.querySelectorAll('#main *')].flatMap((e) => [...e.attributes]).filter((a) => a.name.startsWith('on')).length");
        assert_eq!(handlers, json!(0), "{place}");
    }
    // The content is shown, as text.
    browser.go("#memories");
    let text = browser.text("return document.getElementById('main').textContent");
    assert!(text.contains("<script>window.ran=1</script>"), "{text}");
    browser.go("#sessions");
    browser.js("document.querySelector('tbody a').click()");
    browser.wait("return !!(opened.view && opened.view.chain)");
    let heading = browser.text("return document.querySelector('main .about').textContent");
    assert!(heading.contains("onerror"), "{heading}");
    // Even injected markup is stopped by the page's content security policy.
    browser.js("const e = document.createElement('script'); e.textContent = 'window.ran=1'; document.body.append(e)");
    browser.js("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran=1\">')");
    assert_eq!(browser.js("return window.ran === undefined"), json!(true));
}

#[test]
#[ignore = "needs chromium and chromedriver"]
fn the_check_for_errors_and_requests_can_fail() {
    let browser = Browser::start(DESK);
    let fixture = Fixture::new();
    let asks = "<html data-ready=1><img src=\"http://127.0.0.1:9/x.png\">";
    let throws = "<html data-ready=1><script>throw new Error('on purpose')</script>";
    for (name, page) in [("asks.html", asks), ("throws.html", throws)] {
        let page = fixture.write(name, page);
        browser.open(&page, "");
        std::thread::sleep(Duration::from_millis(300));
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| browser.check_quiet(&page)));
        assert!(checked.is_err(), "{name}");
    }
}

#[test]
#[ignore = "needs chromium and chromedriver"]
fn the_page_fits_a_phone_and_has_two_color_schemes() {
    let fixture = Fixture::new();
    let page = page_of(&fixture, &case("long-session"));
    let phone = BrowserWindow {
        width: 390,
        height: 844,
        is_dark: true,
    };
    let browser = Browser::start(phone);
    browser.open(&page, "");
    let ground = || browser.text("return getComputedStyle(document.body).backgroundColor");
    let dark = ground();
    for view in ["#overview", "#sessions", "#audit"] {
        browser.go(view);
        assert_eq!(
            browser.number("return document.documentElement.scrollWidth - innerWidth"),
            0.0,
            "{view}"
        );
    }
    browser.go("#sessions");
    browser.js("document.querySelector('tbody a').click()");
    browser.wait("return !!document.querySelector('.sawtooth svg')");
    assert_eq!(
        browser.number("return document.documentElement.scrollWidth - innerWidth"),
        0.0
    );
    assert!(browser.number("return document.querySelector('.sawtooth svg').clientWidth") > 300.0);
    // The button goes from automatic to light to dark.
    browser.js("document.querySelector('.theme').click()");
    let light = ground();
    assert_ne!(dark, light);
    browser.js("document.querySelector('.theme').click()");
    assert_eq!(ground(), dark);
    browser.check_quiet(&page);
}
