//! `cargo bench --bench memory`: the cost of extraction. Made-up messages of the usual length, one in twenty with
//! something worth keeping, on one thread, in memory; the rules are compiled before the timer starts. The bound is 50 ms
//! for 1,000 messages.

use language::{dates, secrets};
use memory::extract::extract;
use memory::rules::ExtractionRules;
use std::hint::black_box;
use std::time::{Duration, Instant};
use transcript::messages::{Message, MessagePart, MessageRole};

const MESSAGES: usize = 1_000;
const ROUNDS: usize = 20;

/// Common messages: tasks, questions, answers, pasted text.
const USUAL: [&str; 10] = [
    "can you look at the failing test in the importer and tell me why it only breaks on the second run?",
    "yes please",
    "commit, push and open a draft",
    "The comment says that the cache is flushed, but the function returns early when the list is empty. Consider moving the \
     flush before the check, or document why that is safe. The caller in the scheduler relies on it as well.",
    "how does the lock behave when two processes start at the same time? I think we had a race there before, not sure",
    "let's go with the second option, but split it so that the migration is separate",
    "here is the output:\n```\nerror[E0382]: borrow of moved value\n  --> src/main.rs:12\n```\ncan you fix it",
    "I just ran it on the other machine and the numbers are different, 12 against 15, is that expected?",
    "now add a flag for that, default off, and mention it in the readme",
    "为什么第二次运行会失败?帮我看一下日志",
];

/// Messages worth keeping.
const KEPT: [&str; 4] = [
    "From now on run the linter before every commit, because the server is slow.",
    "I prefer tables over long paragraphs when you compare options.",
    "We decided to keep the old format until next Friday since customers still use it.",
    "以后提交信息都用英文写,因为同事看不懂中文",
];

fn main() {
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("memory: run with `cargo bench --bench memory`");
        return;
    }
    let messages = (0..MESSAGES).map(message).collect::<Vec<_>>();
    let bytes = messages.iter().flat_map(Message::texts).map(str::len).sum::<usize>();
    let found = extract(&messages, ExtractionRules::built_in());
    println!(
        "{MESSAGES} messages, {bytes} bytes, {} memories, one thread, best of {ROUNDS}",
        found.candidates.len()
    );
    let texts = || messages.iter().flat_map(Message::texts);
    let day = jiff::civil::date(2026, 3, 4);
    report("extract", || {
        black_box(extract(black_box(&messages), ExtractionRules::built_in()));
    });
    report("dates", || {
        black_box(texts().map(|text| dates::find_dates(text, day).len()).sum::<usize>());
    });
    report("secrets", || {
        black_box(texts().map(|text| secrets::find(text).len()).sum::<usize>());
    });
}

fn message(at: usize) -> Message {
    let text = match at % 20 {
        7 => KEPT[at / 20 % KEPT.len()].to_owned(),
        _ => format!("{} {}", USUAL[at % USUAL.len()], USUAL[(at / 3) % USUAL.len()]),
    };
    Message {
        session: format!("session-{}", at / 50),
        uuid: format!("message-{at}"),
        time: Some(1_772_582_400_000 + at as i64 * 60_000),
        line: at as u64,
        ..Message::with_parts(MessageRole::User, vec![MessagePart::Text(text)])
    }
}

fn report(name: &str, work: impl Fn()) {
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed());
    }
    println!("{name:<10} {:>8.2} ms", best.as_secs_f64() * 1e3);
}
