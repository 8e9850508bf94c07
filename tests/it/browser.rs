//! The page in a real browser: Chromium without a window, driven over WebDriver.
//!
//! Where Chromium or its driver is not installed these tests say so and pass, unless `BACKCAST_BROWSER=required` asks for
//! them; `.ci/run` does.

use crate::fixture::{Fixture, case, corpus};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const FLAGS: [&str; 8] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
];

/// A browser with one empty profile, gone when dropped.
struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

/// How the window is.
#[derive(Clone, Copy)]
struct BrowserWindow {
    width: u32,
    height: u32,
    is_dark: bool,
}

const DESK: BrowserWindow = BrowserWindow {
    width: 1280,
    height: 900,
    is_dark: false,
};

fn find(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders = std::env::split_paths(&path).collect::<Vec<_>>();
    names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|file| file.is_file())
}

impl Browser {
    /// Starts one; `None`, and a word about it, where there is none.
    fn start(window: BrowserWindow) -> Option<Browser> {
        let chromium = find(&["chromium", "chromium-browser", "google-chrome"]);
        let driver = find(&["chromedriver"]);
        let (Some(chromium), Some(driver)) = (chromium, driver) else {
            assert!(
                std::env::var_os("BACKCAST_BROWSER").is_none(),
                "chromium and chromedriver are asked for, and not installed"
            );
            eprintln!("SKIPPED: chromium or chromedriver is not installed");
            return None;
        };
        let mut driver = Command::new(driver)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the driver starts");
        let port = port_of(&mut driver);
        let profile = tempfile::tempdir().expect("a profile");
        let mut args = FLAGS.map(str::to_owned).to_vec();
        args.push(format!("--user-data-dir={}", profile.path().display()));
        args.push(format!("--window-size={},{}", window.width, window.height));
        if window.is_dark {
            args.push("--blink-settings=preferredColorScheme=0".to_owned());
        }
        let mut browser = Browser {
            driver,
            port,
            session: String::new(),
            _profile: profile,
        };
        let mut options = json!({"args": args, "binary": chromium});
        if window.width < 500 {
            let size = json!({"width": window.width, "height": window.height, "pixelRatio": 2.0, "touch": true});
            options["mobileEmulation"] = json!({"deviceMetrics": size});
        }
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }}});
        let made = browser.ask("POST", "/session", &wanted);
        browser.session = format!("/session/{}", made["sessionId"].as_str().expect("a session"));
        Some(browser)
    }

    /// One request to the driver, one connection.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the driver listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(120)))
            .expect("a limit");
        let body = if method == "POST" {
            body.to_string()
        } else {
            String::new()
        };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("asked");
        stream.write_all(body.as_bytes()).expect("asked");
        let mut reader = BufReader::new(stream);
        let mut length = None;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).expect("a head");
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(number) = line.strip_prefix("content-length:") {
                length = Some(number.trim().parse::<usize>().expect("a length"));
            }
        }
        let mut answer = vec![0; length.expect("a length")];
        reader.read_exact(&mut answer).expect("an answer");
        let answer = serde_json::from_slice::<Value>(&answer).expect("JSON");
        let value = answer["value"].clone();
        assert!(value.get("error").is_none(), "{method} {path}: {value}");
        value
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", &format!("{}{path}", self.session), body)
    }

    /// Opens a page and waits until it is drawn.
    fn open(&self, page: &Path, place: &str) {
        // A change of the fragment alone would not load the page again.
        self.post("/url", &json!({"url": "about:blank"}));
        self.post("/url", &json!({"url": format!("file://{}{place}", page.display())}));
        self.wait("return document.documentElement.dataset.ready !== undefined");
    }

    fn js(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits for something to become true.
    #[track_caller]
    fn wait(&self, script: &str) {
        let start = Instant::now();
        while self.js(script) != json!(true) {
            assert!(start.elapsed() < Duration::from_secs(30), "never true: {script}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn number(&self, script: &str) -> f64 {
        let value = self.js(script);
        value.as_f64().unwrap_or_else(|| panic!("{script} gives {value}"))
    }

    fn text(&self, script: &str) -> String {
        let value = self.js(script);
        value
            .as_str()
            .unwrap_or_else(|| panic!("{script} gives {value}"))
            .to_owned()
    }

    fn go(&self, place: &str) {
        self.js(&format!("location.hash = {}", json!(place)));
        self.js("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))");
    }

    /// Presses keys on what has the focus.
    fn press(&self, keys: &str) {
        let strokes = keys.chars().flat_map(|key| {
            [
                json!({"type": "keyDown", "value": key}),
                json!({"type": "keyUp", "value": key}),
            ]
        });
        let actions = json!({"actions": [{"type": "key", "id": "keys", "actions": strokes.collect::<Vec<_>>()}]});
        self.post("/actions", &actions);
    }

    /// Moves the mouse over points of the window; with `drags`, pressed from the first to the last.
    fn mouse(&self, points: &[(f64, f64)], drags: bool) {
        let mut steps = Vec::new();
        for (number, (x, y)) in points.iter().enumerate() {
            steps.push(json!({"type": "pointerMove", "duration": 20, "x": x.round() as i64, "y": y.round() as i64}));
            if drags && number == 0 {
                steps.push(json!({"type": "pointerDown", "button": 0}));
            }
        }
        if drags {
            steps.push(json!({"type": "pointerUp", "button": 0}));
        }
        let mouse = json!({"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": steps});
        self.post("/actions", &json!({"actions": [mouse]}));
    }

    /// Where an element is: left, top, width, height.
    fn place(&self, selector: &str) -> [f64; 4] {
        let script = format!(
            "const e = document.querySelector({}); e.scrollIntoView({{block: 'center'}}); const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]",
            json!(selector)
        );
        let box_of = self.js(&script);
        std::array::from_fn(|at| box_of[at].as_f64().expect("a place"))
    }

    /// Fails if the console holds a complaint, or anything but the page itself was asked for.
    #[track_caller]
    fn check_quiet(&self, page: &Path) {
        let console = self.post("/se/log", &json!({"type": "browser"}));
        let severe = console.as_array().expect("a log").iter().filter(|entry| {
            let level = entry["level"].as_str().unwrap_or_default();
            level == "SEVERE" || level == "WARNING"
        });
        assert_eq!(severe.collect::<Vec<_>>(), Vec::<&Value>::new());
        let own = format!("file://{}", page.display());
        let log = self.post("/se/log", &json!({"type": "performance"}));
        let mut asked = 0;
        for entry in log.as_array().expect("a log") {
            let message = serde_json::from_str::<Value>(entry["message"].as_str().expect("a message")).expect("JSON");
            let message = &message["message"];
            // The browser's own first tab asks for this and that; what our page asks for has our page as its document.
            let document = message["params"]["documentURL"].as_str().unwrap_or_default();
            if message["method"] == "Network.requestWillBeSent" && !document.starts_with("chrome") {
                let url = message["params"]["request"]["url"].as_str().unwrap_or_default();
                let url = url.split('#').next().unwrap_or_default();
                assert!(
                    url == own || url.starts_with("data:") || url == "about:blank",
                    "asked for {url}"
                );
                asked += usize::from(url == own);
            }
        }
        assert!(asked > 0, "the log of requests has the page itself");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.ask("DELETE", &self.session, &Value::Null);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// The port that the driver says it listens on.
fn port_of(driver: &mut Child) -> u16 {
    let mut lines = BufReader::new(driver.stdout.take().expect("output")).lines();
    let port = lines.find_map(|line| {
        let line = line.expect("text");
        let words = line.strip_prefix("ChromeDriver was started successfully on port ")?;
        words.trim_end_matches('.').parse::<u16>().ok()
    });
    // What it says later must not fill the pipe.
    std::thread::spawn(move || lines.for_each(drop));
    port.expect("a port")
}

/// A page of some logs.
fn page_of(fixture: &Fixture, logs: &Path) -> PathBuf {
    let page = fixture.path("page.html");
    let args = [
        OsStr::new("report"),
        logs.as_os_str(),
        OsStr::new("-q"),
        OsStr::new("-o"),
        page.as_os_str(),
    ];
    fixture.run(args).success();
    page
}

/// Everything that the commands write, in one folder.
fn folder_of_everything(fixture: &Fixture) -> PathBuf {
    let folder = fixture.path("all");
    std::fs::create_dir(&folder).expect("a folder");
    let logs = corpus().display().to_string();
    let at = |name: &str| folder.join(name).display().to_string();
    let run = |args: &[&str]| {
        fixture.run(args.iter().copied().chain(["-q"])).success();
    };
    run(&["replay", &logs, "--compare", "never", "--out", &at("run")]);
    run(&[
        "replay",
        &logs,
        "--set",
        "window.percent=50",
        "--working-set",
        "--rounds=parquet",
        "--out",
        &at("half"),
    ]);
    run(&[
        "tune",
        &logs,
        "--vary",
        "window.percent=50..90:20",
        "--resamples=100",
        "--out",
        &at("tune"),
    ]);
    run(&["audit", &logs, "-f", "json", "-o", &at("audit.json")]);
    run(&["stats", &logs, "--by=day", "-f", "json", "-o", &at("stats.json")]);
    fixture.write(
        "talk.jsonl",
        "{\"type\":\"user\",\"uuid\":\"u1\",\"sessionId\":\"s1\",\"timestamp\":\"2026-01-02T03:04:05.000Z\",\"cwd\":\"/w\",\"message\":{\"role\":\"user\",\"content\":\"From now on, always run the linter before you commit.\"}}\n",
    );
    let talk = fixture.path("talk.jsonl").display().to_string();
    run(&["memory", "extract", &talk, "--dir", &at("memory")]);
    fixture.write(
        "all/notes/s1/session-memory/summary.md",
        "# Session Title\nLinting\n\n# Current State\n- done\n",
    );
    folder
}

/// The chain of the session view, as the page reads it: the sum of all windows, and how many.
const WINDOWS: &str = "const view = opened.view; return view.chain.input.reduce((a, b) => a + b, 0)";

#[test]
fn the_page_shows_what_the_outputs_hold() {
    let Some(browser) = Browser::start(DESK) else { return };
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
fn plots_zoom_and_tables_link_to_them() {
    let Some(browser) = Browser::start(DESK) else { return };
    let fixture = Fixture::new();
    let page = page_of(&fixture, &case("long-session"));
    browser.open(&page, "#sessions");
    browser.js("document.querySelector('tbody a').click()");
    browser.wait("return !!document.querySelector('.sawtooth svg')");
    let count = browser.number("return opened.view.chain.count");
    let seen = || browser.number("return opened.view.plot.to - opened.view.plot.from");
    assert_eq!(seen(), count);
    // With the mouse: what is dragged over fills the plot, a double click shows all again.
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
    // Hovering tells numbers.
    browser.mouse(&[(left + width * 0.5, middle)], false);
    let told = browser.text("return document.querySelector('.where').textContent");
    assert!(told.starts_with("Call "), "{told}");
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
fn the_keyboard_is_enough() {
    const RIGHT: char = '\u{e014}';
    const TAB: char = '\u{e004}';
    const ENTER: char = '\u{e007}';
    let Some(browser) = Browser::start(DESK) else { return };
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
    browser.js("document.querySelector('#calls thead th:nth-child(5) button').focus()");
    browser.press(&ENTER.to_string());
    assert_eq!(
        browser.text("return document.querySelector('#calls thead th:nth-child(5)').getAttribute('aria-sort')"),
        "descending"
    );
    browser.check_quiet(&page);
}

#[test]
fn every_view_of_a_folder_is_drawn() {
    let Some(browser) = Browser::start(DESK) else { return };
    let fixture = Fixture::new();
    let folder = folder_of_everything(&fixture);
    fixture.run(["report", &folder.display().to_string(), "-q"]).success();
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
        ("#memories", "run the linter"),
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
    // A run read from Parquet is drawn like one from CSV.
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
fn hostile_content_runs_nothing() {
    let Some(browser) = Browser::start(DESK) else { return };
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
    // It is there, as text.
    browser.go("#memories");
    let text = browser.text("return document.getElementById('main').textContent");
    assert!(text.contains("<script>window.ran=1</script>"), "{text}");
    browser.go("#sessions");
    browser.js("document.querySelector('tbody a').click()");
    browser.wait("return !!(opened.view && opened.view.chain)");
    let heading = browser.text("return document.querySelector('h1').textContent");
    assert!(heading.contains("onerror"), "{heading}");
    // Even if something got in, the page's policy would stop it.
    browser.js("const e = document.createElement('script'); e.textContent = 'window.ran=1'; document.body.append(e)");
    browser.js("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran=1\">')");
    assert_eq!(browser.js("return window.ran === undefined"), json!(true));
}

/// Logs, memories and notes that try to run something, in every place of a page.
fn hostile_page(fixture: &Fixture) -> PathBuf {
    const EVIL: &str = "</script><script>window.ran=1</script><img src=x onerror=\"window.ran=1\"> javascript:window.ran=1 --><svg onload=window.ran=1>";
    let evil_name = "<img src=x onerror=\"window.ran=1\">";
    let session = evil_name;
    let line = |value: Value| format!("{value}\n");
    let base = |kind: &str, uuid: &str, parent: Value, time: &str| {
        json!({"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": session, "timestamp": time, "cwd": EVIL,
            "version": "2.1.30", "gitBranch": EVIL})
    };
    let mut text = String::new();
    let mut user = base("user", "u1", Value::Null, "2026-01-02T03:04:05.000Z");
    user["message"] = json!({"role": "user", "content": format!("From now on always write {EVIL} into every file.")});
    text += &line(user);
    let mut answer = base("assistant", "a1", json!("u1"), "2026-01-02T03:04:09.000Z");
    answer["requestId"] = json!("r1");
    answer["message"] = json!({"id": "m1", "role": "assistant", "model": evil_name, "content": [
        {"type": "tool_use", "id": "t1", "name": EVIL, "input": {"file_path": EVIL}}],
        "usage": {"input_tokens": 5000, "output_tokens": 10, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}});
    text += &line(answer);
    let mut result = base("user", "u2", json!("a1"), "2026-01-02T03:04:10.000Z");
    result["message"] =
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": EVIL}]});
    text += &line(result);
    text += &format!("{{\"type\":\"user\",{EVIL}\n");
    let mut last = base("assistant", "a2", json!("u2"), "2026-01-02T05:04:12.000Z");
    last["requestId"] = json!("r2");
    last["message"] = json!({"id": "m2", "role": "assistant", "model": evil_name, "content": [{"type": "text", "text": EVIL}],
        "usage": {"input_tokens": 6000, "output_tokens": 10, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}});
    text += &line(last);
    let name = "all/<b onmouseover=alert(1)>.jsonl";
    fixture.write(name, text);
    let memory = json!({"schema_version": 1, "kind": "memories", "memories": [{"type": "feedback", "title": EVIL, "hook": EVIL,
        "body": format!("{EVIL}\n\n- [{EVIL}](javascript:window.ran=1)\n```\n{EVIL}\n```"), "confidence": 0.9,
        "sources": [{"session": session, "uuid": EVIL, "time": EVIL}]}],
        "rejected": [{"rejected": EVIL, "text": EVIL, "sources": []}], "secrets_dropped": 0});
    fixture.write("all/memories.json", memory.to_string());
    fixture.write("all/notes/evil/summary.md", format!("# {EVIL}\n{EVIL}\n"));
    let compare = json!({"schema_version": 1, "kind": "compare", "policies": [EVIL, EVIL], "totals": {"sessions": 1, "a": {}, "b": {}, "difference": {}},
        "bounds": {}, "limits": {}, "sessions": [{"session": session, "project": EVIL, "cost_difference_micro_usd": 5, "why_cost": EVIL}]});
    fixture.write("all/compare.json", compare.to_string());
    let interval = json!({"share": 0.1, "low": 0.0, "high": 0.2});
    let tune = json!({"schema_version": 1, "kind": "tune", "name": EVIL, "front": [EVIL], "policies": 1, "sessions": 1, "choice": {"best": EVIL, "settings": {"x": EVIL},
        "holds": true, "saved_on_all_sessions": interval, "saved_on_held_out_sessions": interval, "folds": 5, "folds_that_agree": 5},
        "client_settings": [{"key": EVIL, "setting": {"name": EVIL, "value": EVIL}, "note": EVIL}],
        "flips": [{"from": EVIL, "to": EVIL, "usd_per_miss": 1.0}], "points": [{"policy": EVIL, "cost_micro_usd": 5, "misses": 1, "mean_window": 5}]});
    fixture.write("all/tune.json", tune.to_string());
    let page = fixture.path("page.html");
    let all = fixture.path("all").display().to_string();
    fixture
        .run(["report", &all, "-q", "-o", &page.display().to_string()])
        .success();
    page
}

#[test]
fn the_checks_can_fail() {
    let Some(browser) = Browser::start(DESK) else { return };
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
fn it_fits_a_phone_and_both_colours() {
    let fixture = Fixture::new();
    let page = page_of(&fixture, &case("long-session"));
    let phone = BrowserWindow {
        width: 390,
        height: 844,
        is_dark: true,
    };
    let Some(browser) = Browser::start(phone) else { return };
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
