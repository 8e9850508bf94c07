//! A WebDriver client: starts Chromium without a window and drives it over HTTP.

use serde_json::{Value, json};
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

/// A browser with an empty profile; ends when dropped.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

/// Size and color scheme of the browser's window.
#[derive(Clone, Copy)]
pub struct BrowserWindow {
    pub width: u32,
    pub height: u32,
    pub is_dark: bool,
}

pub const DESK: BrowserWindow = BrowserWindow {
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
    /// Starts Chromium with an empty profile; panics if it or its driver is not installed.
    pub fn start(window: BrowserWindow) -> Browser {
        let chromium = find(&["chromium", "chromium-browser", "google-chrome"]).expect("chromium is installed");
        let driver = find(&["chromedriver"]).expect("chromedriver is installed");
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
        browser
    }

    /// Sends one request to the driver over a connection of its own; returns its `value`.
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
        stream.write_all(head.as_bytes()).expect("sent");
        stream.write_all(body.as_bytes()).expect("sent");
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
    pub fn open(&self, page: &Path, place: &str) {
        // A change of the fragment alone would not load the page again.
        self.post("/url", &json!({"url": "about:blank"}));
        self.post("/url", &json!({"url": format!("file://{}{place}", page.display())}));
        self.wait("return document.documentElement.dataset.ready !== undefined");
    }

    pub fn js(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits until a script returns true.
    #[track_caller]
    pub fn wait(&self, script: &str) {
        let start = Instant::now();
        while self.js(script) != json!(true) {
            assert!(start.elapsed() < Duration::from_secs(30), "never true: {script}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn number(&self, script: &str) -> f64 {
        let value = self.js(script);
        value.as_f64().unwrap_or_else(|| panic!("{script} gives {value}"))
    }

    pub fn text(&self, script: &str) -> String {
        let value = self.js(script);
        value
            .as_str()
            .unwrap_or_else(|| panic!("{script} gives {value}"))
            .to_owned()
    }

    pub fn go(&self, place: &str) {
        self.js(&format!("location.hash = {}", json!(place)));
        self.js("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))");
    }

    /// Presses keys on the focused element.
    pub fn press(&self, keys: &str) {
        let strokes = keys.chars().flat_map(|key| {
            [
                json!({"type": "keyDown", "value": key}),
                json!({"type": "keyUp", "value": key}),
            ]
        });
        let actions = json!({"actions": [{"type": "key", "id": "keys", "actions": strokes.collect::<Vec<_>>()}]});
        self.post("/actions", &actions);
    }

    /// Moves the mouse over points of the window; with `drags`, its button is down from the first to the last.
    pub fn mouse(&self, points: &[(f64, f64)], drags: bool) {
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

    /// Scrolls to an element and returns its left, top, width and height.
    pub fn place(&self, selector: &str) -> [f64; 4] {
        let script = format!(
            "const e = document.querySelector({}); e.scrollIntoView({{block: 'center'}}); const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]",
            json!(selector)
        );
        let box_of = self.js(&script);
        std::array::from_fn(|at| box_of[at].as_f64().expect("a place"))
    }

    /// Fails if the console has a warning or an error, or if anything but the page itself was requested.
    #[track_caller]
    pub fn check_quiet(&self, page: &Path) {
        let console = self.post("/se/log", &json!({"type": "browser"}));
        let severe = console.as_array().expect("a log").iter().filter(|entry| {
            let level = entry["level"].as_str().unwrap_or_default();
            level == "SEVERE" || level == "WARNING"
        });
        assert_eq!(severe.collect::<Vec<_>>(), Vec::<&Value>::new());
        let own = format!("file://{}", page.display());
        let log = self.post("/se/log", &json!({"type": "performance"}));
        let mut loads = 0;
        for entry in log.as_array().expect("a log") {
            let message = serde_json::from_str::<Value>(entry["message"].as_str().expect("a message")).expect("JSON");
            let message = &message["message"];
            // The browser's first tab sends requests of its own; those of the page name the page as their document.
            let document = message["params"]["documentURL"].as_str().unwrap_or_default();
            if message["method"] == "Network.requestWillBeSent" && !document.starts_with("chrome") {
                let url = message["params"]["request"]["url"].as_str().unwrap_or_default();
                let url = url.split('#').next().unwrap_or_default();
                assert!(
                    url == own || url.starts_with("data:") || url == "about:blank",
                    "requested {url}"
                );
                loads += usize::from(url == own);
            }
        }
        assert!(loads > 0, "the page itself is not in the log of requests");
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

/// Returns the port that the driver prints.
fn port_of(driver: &mut Child) -> u16 {
    let mut lines = BufReader::new(driver.stdout.take().expect("output")).lines();
    let port = lines.find_map(|line| {
        let line = line.expect("text");
        let words = line.strip_prefix("ChromeDriver was started successfully on port ")?;
        words.trim_end_matches('.').parse::<u16>().ok()
    });
    // Read on, so that later output does not fill the pipe.
    std::thread::spawn(move || lines.for_each(drop));
    port.expect("a port")
}
