//! The ten sections of the notes, from what happened.

use crate::offline::clean;
use crate::offline::clean::{escape_markdown, inline_code};
use crate::offline::compose::{MUST_KEEP_WEIGHT, WeightedItem, block_quote, inline_quote};
use crate::offline::digest::{
    Digest, DigestFailure, PromptChannel, SentenceKind, TaskState, TouchedFile, UserChoice, UserPrompt,
};
use crate::offline::names;
use crate::template::SectionPurpose;
use language::sentences::split_prose;
use transcript::log::Time;

/// Weight of a section beside another: the best of each come before the second best of any.
fn section_weight(purpose: SectionPurpose) -> f64 {
    3.0 * (1.0 - f64::from(purpose.priority()) / 9.0)
}

/// How much something counts that is the `at`-th of `count`, the last most.
fn recency_weight(at: usize, count: usize) -> f64 {
    10.0 * (at + 1) as f64 / count.max(1) as f64
}

/// Gathers what is worth saying.
struct NotesCollector<'d> {
    digest: &'d Digest,
    section: usize,
    base: f64,
    items: Vec<WeightedItem>,
}

/// What is worth saying in the sections of a template, by number; sections of a person's own get nothing.
pub fn notes_items(digest: &Digest, purposes: &[Option<SectionPurpose>]) -> Vec<WeightedItem> {
    let mut gather = NotesCollector {
        digest,
        section: 0,
        base: 0.0,
        items: Vec::new(),
    };
    for (section, purpose) in purposes.iter().enumerate() {
        let Some(purpose) = *purpose else { continue };
        gather.section = section;
        gather.base = section_weight(purpose);
        match purpose {
            SectionPurpose::Title => gather.add_title(),
            SectionPurpose::State => gather.add_state(),
            SectionPurpose::Task => gather.add_task(),
            SectionPurpose::Files => gather.add_files(),
            SectionPurpose::Workflow => gather.add_workflow(),
            SectionPurpose::Errors => gather.add_errors(),
            SectionPurpose::System => gather.add_system(),
            SectionPurpose::Learnings => gather.add_learnings(),
            SectionPurpose::Results => gather.add_results(),
            SectionPurpose::Worklog => gather.add_worklog(),
        }
    }
    gather.items
}

impl NotesCollector<'_> {
    fn add(&mut self, weight: f64, text: String) {
        self.items.push(WeightedItem {
            section: self.section,
            weight: weight + self.base,
            text,
        });
    }

    fn add_title(&mut self) {
        let title = session_title(self.digest);
        if !title.is_empty() {
            self.items.push(WeightedItem {
                section: self.section,
                weight: MUST_KEEP_WEIGHT,
                text: escape_markdown(&title),
            });
        }
    }

    fn add_state(&mut self) {
        let digest = self.digest;
        if let Some(prompt) = last_request(digest) {
            self.add(20.0, format!("- Working on: {}", inline_quote(&prompt.text, 400)));
        }
        for task in digest.tasks.iter().filter(|task| task.state == TaskState::InProgress) {
            self.add(
                19.0,
                format!(
                    "- In progress: {}",
                    escape_markdown(&clean::to_one_line(&task.text, 200))
                ),
            );
        }
        let open = digest.tasks.iter().filter(|task| task.state == TaskState::Open);
        for (at, task) in open.enumerate() {
            self.add(
                18.0 - at as f64 * 0.1,
                format!("- Not begun: {}", escape_markdown(&clean::to_one_line(&task.text, 200))),
            );
        }
        if let Some(turn) = digest.turns.last() {
            let files = turn
                .files
                .iter()
                .rev()
                .take(8)
                .map(|at| inline_code(names::relative_path(&digest.files[*at].path, &digest.root)));
            let files = files.collect::<Vec<_>>();
            if !files.is_empty() {
                self.add(17.0, format!("- Changed for it so far: {}", files.join(", ")));
            }
        }
        for failure in digest
            .failures
            .iter()
            .filter(|failure| is_still_failing(digest, failure))
            .rev()
            .take(3)
        {
            self.add(
                16.0,
                format!(
                    "- Still failing: {} ({})",
                    inline_code(&failure.what),
                    escape_markdown(&failure.error)
                ),
            );
        }
        if let Some(command) = digest.commands.iter().max_by_key(|command| command.step) {
            let how = if command.is_failing { "failed" } else { "went through" };
            self.add(
                9.0,
                format!(
                    "- Last command: {} {how}{}",
                    inline_code(&command.text),
                    format_outcome(&command.outcome)
                ),
            );
        }
        if let Some(turn) = digest.turns.iter().rev().find(|turn| !turn.answer.is_empty()) {
            let label = if turn.is_answered {
                "- The last answer:"
            } else {
                "- Said last:"
            };
            self.add(15.0, format!("{label}\n{}", block_quote(&turn.answer, 1_500)));
        }
        if let Some(next) = next_step(digest) {
            self.add(18.5, format!("- Next: {next}"));
        }
    }

    fn add_task(&mut self) {
        let digest = self.digest;
        if let Some(earlier) = digest
            .earlier_summary
            .as_ref()
            .filter(|earlier| !earlier.section(1).trim().is_empty())
        {
            let text = format!(
                "- Before that, by an earlier summary:\n{}",
                block_quote(earlier.section(1), 1_600)
            );
            self.add(9.0, text);
        }
        let requests = digest
            .prompts
            .iter()
            .filter(|prompt| is_request(prompt))
            .collect::<Vec<_>>();
        for (at, prompt) in requests.iter().enumerate() {
            let weight = if at == 0 {
                12.0
            } else {
                recency_weight(at, requests.len())
            };
            let text = match at {
                0 => format!("- Asked first:\n{}", block_quote(&prompt.text, 1_600)),
                _ => format!("- {}{}", time_prefix(prompt.time), inline_quote(&prompt.text, 320)),
            };
            self.add(weight, text);
        }
        for (at, choice) in digest.choices.iter().enumerate() {
            self.add(recency_weight(at, digest.choices.len()) + 2.0, choice_line(choice));
        }
        let answers = digest
            .prompts
            .iter()
            .filter(|prompt| is_short_answer(prompt))
            .collect::<Vec<_>>();
        for (at, prompt) in answers.iter().enumerate() {
            let question = prompt.answered_question.as_deref().unwrap_or_default();
            self.add(
                recency_weight(at, answers.len()),
                format!(
                    "- Decided: asked {}, the user said {}",
                    inline_quote(question, 200),
                    inline_quote(&prompt.text, 200)
                ),
            );
        }
        self.add_sentences(SentenceKind::Decision, "- Reasoned: ", 12);
    }

    /// The sentences of a sense, newest weightiest, each once.
    fn add_sentences(&mut self, sense: SentenceKind, label: &str, most: usize) {
        let found = best_sentences(self.digest, sense, most);
        let count = found.len();
        for (at, text) in found.into_iter().enumerate() {
            self.add(
                recency_weight(at, count) - 1.0,
                format!("{label}{}", escape_markdown(&clean::to_one_line(text, 300))),
            );
        }
    }

    fn add_files(&mut self) {
        let digest = self.digest;
        if !digest.root.is_empty() && !digest.files.is_empty() {
            self.add(15.0, format!("Paths are relative to {}.", inline_code(&digest.root)));
        }
        let mut order = (0..digest.files.len()).collect::<Vec<_>>();
        order.sort_by_key(|at| (digest.files[*at].changes > 0, digest.files[*at].step, *at));
        let count = order.len();
        let weights = order
            .iter()
            .enumerate()
            .map(|(rank, file)| (*file, recency_weight(rank, count)))
            .collect::<Vec<_>>();
        for (file, weight) in weights.into_iter().rev().take(60) {
            self.add(weight, file_line(digest, &digest.files[file]));
        }
    }

    fn add_workflow(&mut self) {
        let digest = self.digest;
        let shown = workflow_commands(digest);
        for at in shown {
            let command = &digest.commands[at];
            let weight = 4.0 + (command.runs.min(8) as f64) / 2.0 + recency_weight(command.step, digest.steps) / 5.0;
            self.add(weight, command_line(digest, at));
        }
    }

    fn add_errors(&mut self) {
        let digest = self.digest;
        let corrections = digest
            .prompts
            .iter()
            .filter(|prompt| prompt.is_correction)
            .collect::<Vec<_>>();
        for (at, prompt) in corrections.iter().enumerate() {
            self.add(
                recency_weight(at, corrections.len()) + 3.0,
                format!("- The user corrected: {}", inline_quote(&prompt.text, 500)),
            );
        }
        let count = digest.failures.len();
        for (at, failure) in digest.failures.iter().enumerate() {
            let is_trivial =
                failure.fixed_at.is_none() && !is_still_failing(digest, failure) || is_read_only_command(&failure.what);
            let weight = recency_weight(at, count) - if is_trivial { 4.0 } else { 0.0 }
                + if is_still_failing(digest, failure) { 5.0 } else { 0.0 };
            self.add(weight, failure_line(digest, failure));
        }
    }

    fn add_system(&mut self) {
        let digest = self.digest;
        for point in digest.earlier_points(2).into_iter().take(25) {
            self.add(4.0, format!("- {}", escape_markdown(&clean::to_one_line(&point, 300))));
        }
        for (folder, files, changed) in busiest_folders(digest).into_iter().take(12) {
            let text = match changed {
                0 => format!("- {}: {} read", inline_code(&folder), format_file_count(files)),
                _ => format!(
                    "- {}: {} in play, {changed} changed",
                    inline_code(&folder),
                    format_file_count(files)
                ),
            };
            self.add(6.0, text);
        }
        self.add_sentences(SentenceKind::System, "- ", 30);
    }

    fn add_learnings(&mut self) {
        let digest = self.digest;
        for (at, rule) in digest.rules.iter().enumerate() {
            self.add(
                recency_weight(at, digest.rules.len()) + 4.0,
                format!("- The user wants: {}", escape_markdown(&clean::to_one_line(rule, 300))),
            );
        }
        for point in digest.earlier_points(5).into_iter().take(15) {
            self.add(5.0, format!("- {}", escape_markdown(&clean::to_one_line(&point, 300))));
        }
        self.add_sentences(SentenceKind::Cause, "- ", 25);
        if digest.edit_slips > 1 {
            self.add(2.0, format!("- {} edits were refused because the file had not been read or the text was not found: read first, then edit.", digest.edit_slips));
        }
        let flaky = digest
            .commands
            .iter()
            .filter(|command| command.failed > 1 && command.failed == command.runs);
        for command in flaky.take(5) {
            self.add(
                3.0,
                format!(
                    "- {} never went through in {} tries.",
                    inline_code(&command.text),
                    command.runs
                ),
            );
        }
    }

    fn add_results(&mut self) {
        let digest = self.digest;
        for link in &digest.links {
            self.add(7.0, format!("- {link}"));
        }
        let answered = digest
            .turns
            .iter()
            .filter(|turn| turn.is_answered && turn.answer.chars().count() > 80);
        let answered = answered.collect::<Vec<_>>();
        let count = answered.len();
        for (at, turn) in answered.into_iter().enumerate() {
            let asked = turn.prompt.map(|prompt| &digest.prompts[prompt]);
            let is_question = asked.is_some_and(|prompt| has_question(&prompt.text));
            let has_table = turn.answer.lines().any(|line| line.trim_start().starts_with('|'));
            let weight =
                recency_weight(at, count) + if is_question { 3.0 } else { 0.0 } + if has_table { 1.0 } else { 0.0 }
                    - 3.0;
            let most = if is_question || has_table || at + 2 >= count {
                1_800
            } else {
                500
            };
            let question = asked
                .map(|prompt| format!("- To {}:\n", inline_quote(&prompt.text, 120)))
                .unwrap_or_default();
            self.add(weight, format!("{question}{}", block_quote(&turn.answer, most)));
        }
        let tallies = digest
            .commands
            .iter()
            .filter(|command| !command.outcome.is_empty() && !command.is_failing && is_check_command(&command.text));
        let mut tallies = tallies.collect::<Vec<_>>();
        tallies.sort_by_key(|command| std::cmp::Reverse(command.step));
        for (at, command) in tallies.into_iter().take(6).enumerate() {
            self.add(
                5.0 - at as f64 * 0.3,
                format!("- {}{}", inline_code(&command.text), format_outcome(&command.outcome)),
            );
        }
    }

    fn add_worklog(&mut self) {
        let digest = self.digest;
        let count = digest.turns.len();
        for (at, turn) in digest.turns.iter().enumerate() {
            let mut done = Vec::new();
            if !turn.files.is_empty() {
                let files = turn
                    .files
                    .iter()
                    .take(5)
                    .map(|at| inline_code(names::file_name(&digest.files[*at].path)));
                let more = turn.files.len().saturating_sub(5);
                let more = if more > 0 {
                    format!(" and {more} more")
                } else {
                    String::new()
                };
                done.push(format!("changed {}{more}", files.collect::<Vec<_>>().join(", ")));
            }
            let checks = turn
                .commands
                .iter()
                .map(|at| &digest.commands[*at])
                .filter(|command| is_check_command(&command.text));
            let checks = checks
                .take(3)
                .map(|command| inline_code(&clean::to_one_line(&command.text, 60)));
            let checks = checks.collect::<Vec<_>>();
            if !checks.is_empty() {
                done.push(format!("ran {}", checks.join(", ")));
            }
            if !turn.failures.is_empty() {
                done.push(match turn.failures.len() {
                    1 => "1 failure".to_owned(),
                    count => format!("{count} failures"),
                });
            }
            if turn.is_answered
                && let Some(first) = clean::first_statement(&turn.answer)
            {
                done.push(format!("answered {}", inline_quote(first, 140)));
            }
            let asked = turn.prompt.map_or("(before the first prompt)".into(), |prompt| {
                inline_quote(&digest.prompts[prompt].text, 100)
            });
            if done.is_empty() {
                done.push("no answer".into());
            }
            self.add(
                recency_weight(at, count),
                format!("- {}{asked}: {}", time_prefix(turn.time), done.join("; ")),
            );
        }
    }
}

/// The title: the first request in five to ten words.
pub fn session_title(digest: &Digest) -> String {
    const POLITE: [&str; 14] = [
        "please", "hi", "hello", "hey", "can", "could", "you", "would", "i", "want", "need", "to", "let's", "so",
    ];
    let is_telling = |prompt: &&UserPrompt| {
        is_request(prompt) && (prompt.text.split_whitespace().count() >= 3 || !prompt.text.is_ascii())
    };
    let Some(prompt) = digest.prompts.iter().find(is_telling).or(digest.prompts.first()) else {
        let earlier = digest.earlier_summary.as_ref();
        return earlier
            .map(|earlier| first_words(earlier.section(1), &[]))
            .unwrap_or_default();
    };
    let title = first_words(&prompt.text, &POLITE);
    let words = title.split_whitespace().count();
    if words >= 5 || !title.is_ascii() {
        return title;
    }
    // Too short to tell it from others: what it turned out to be about.
    let busiest = digest.files.iter().max_by_key(|file| (file.changes, file.reads));
    match busiest {
        Some(file) => format!("{title} (work on {} and around it)", names::file_name(&file.path)),
        None => title,
    }
}

/// Words that nothing ends with.
const NON_FINAL_WORDS: [&str; 18] = [
    "in", "the", "of", "to", "and", "a", "an", "on", "at", "for", "with", "is", "are", "that", "this", "from", "or",
    "by",
];

fn first_words(text: &str, skipped: &[&str]) -> String {
    let is_prose = |line: &&str| line.chars().filter(|sign| sign.is_alphabetic()).count() >= 4;
    let line = text
        .lines()
        .map(|line| line.trim().trim_start_matches(['#', '*', '-', '>', ' ']))
        .find(is_prose)
        .unwrap_or(text);
    let line = line.replace(['`', '"', '*'], "");
    let short = |word| {
        if str::len(word) > 30 && word.contains('/') {
            names::file_name(word.trim_end_matches('/'))
        } else {
            word
        }
    };
    let is_skipped =
        |word: &&str| skipped.contains(&word.to_lowercase().trim_matches(|sign: char| !sign.is_alphanumeric()));
    let mut words = Vec::new();
    for word in line.split_whitespace().skip_while(is_skipped).map(short).take(10) {
        words.push(word);
        // The first sentence is enough, if it says something.
        if words.len() >= 5 && word.ends_with(['.', '?', '!', '。']) {
            break;
        }
    }
    // A title does not end in the middle of a phrase.
    while words.len() > 3
        && words
            .last()
            .is_some_and(|word| NON_FINAL_WORDS.contains(&word.to_lowercase().as_str()))
    {
        words.pop();
    }
    let words = clean::to_one_line(&words.join(" "), 80);
    // Without blanks between words a title is a clause.
    let words = match words.is_ascii() || words.contains(' ') {
        true => words,
        false => clean::to_one_line(words.split(['，', '。', '！', '？', '；']).next().unwrap_or(&words), 30),
    };
    let mut signs = words.trim_end_matches(['.', ',', ':', ';', '?', '!', '…']).chars();
    signs
        .next()
        .map(|first| first.to_uppercase().chain(signs).collect())
        .unwrap_or_default()
}

/// Whether a message asks for something, rather than answering or agreeing.
pub fn is_request(prompt: &UserPrompt) -> bool {
    prompt.channel != PromptChannel::Refusal && prompt.channel != PromptChannel::Shell && !is_short_answer(prompt)
}

/// Whether a message answers a question of the model in a few words.
pub fn is_short_answer(prompt: &UserPrompt) -> bool {
    prompt.channel == PromptChannel::Message
        && prompt.answered_question.is_some()
        && prompt.text.chars().count() <= 120
        && !has_question(&prompt.text)
}

/// Whether a text asks something.
pub fn has_question(text: &str) -> bool {
    let low = text.trim_start().to_lowercase();
    const STARTS: [&str; 13] = [
        "what", "why", "how", "which", "where", "when", "who", "is ", "are ", "does ", "do ", "explain", "show",
    ];
    text.trim_end().ends_with(['?', '？']) || STARTS.iter().any(|start| low.starts_with(start))
}

/// The last message that asked for something; the last of any kind if none did.
pub fn last_request(digest: &Digest) -> Option<&UserPrompt> {
    let is_long =
        |prompt: &&UserPrompt| is_request(prompt) && (prompt.text.chars().count() > 12 || !prompt.text.is_ascii());
    digest.prompts.iter().rev().find(is_long).or(digest.prompts.last())
}

/// What comes next: the open task, what the model said it would do, or the request that has no answer yet.
pub fn next_step(digest: &Digest) -> Option<String> {
    let turn = digest.turns.iter().rev().find(|turn| !turn.answer.is_empty());
    let cues = [
        "next",
        "now let me",
        "let me",
        "i'll",
        "i will",
        "remaining",
        "would you like",
        "shall i",
        "should i",
        "want me to",
        "ready to",
        "still need",
        "下一步",
        "接下来",
        "需要我",
    ];
    let is_cue = |sentence: &&&str| {
        let low = sentence.to_lowercase();
        cues.iter().any(|cue| low.contains(cue))
    };
    let last = turn.map(|turn| split_prose(&turn.answer)).unwrap_or_default();
    if let Some(sentence) = last.iter().rev().take(6).find(is_cue) {
        return Some(format!("the assistant said {}", inline_quote(sentence, 300)));
    }
    let going = digest.tasks.iter().find(|task| task.state == TaskState::InProgress);
    let task = going.or_else(|| digest.tasks.iter().find(|task| task.state == TaskState::Open));
    if let Some(task) = task {
        return Some(format!("the task {}", inline_quote(&task.text, 200)));
    }
    let unanswered = digest.turns.last().filter(|turn| !turn.is_answered)?;
    let prompt = &digest.prompts[unanswered.prompt?];
    Some(format!(
        "finish what the user asked: {}",
        inline_quote(&prompt.text, 300)
    ))
}

/// Whether a failure is still one: a command that failed when it was last run, not long ago.
pub fn is_still_failing(digest: &Digest, failure: &DigestFailure) -> bool {
    let fails = failure
        .command
        .is_some_and(|command| digest.commands[command].is_failing);
    let since = digest
        .turns
        .len()
        .checked_sub(3)
        .and_then(|at| digest.turns.get(at)?.prompt);
    let is_recent = since.is_none_or(|prompt| failure.step >= digest.prompts[prompt].step);
    failure.fixed_at.is_none() && fails && is_recent && is_check_command(&failure.what)
}

/// Commands that check, build or publish: what a workflow is made of.
pub fn is_check_command(command: &str) -> bool {
    const WORDS: [&str; 36] = [
        "test", "build", "lint", "check", "clippy", "fmt", "format", "vet", "tsc", "eslint", "pytest", "jest",
        "vitest", "cargo", "make", "mise", "npm", "pnpm", "yarn", "bun", "gradle", "mvn", "docker", "deploy", "commit",
        "push", "pr", "migrate", "install", "run", "uv", "ruff", "mypy", "tox", "bench", "flutter",
    ];
    let words = command.split_whitespace().filter(|word| !word.contains('='));
    let words = words
        .take(3)
        .flat_map(|word| word.split(|sign: char| !sign.is_ascii_alphanumeric()));
    words.into_iter().any(|word| WORDS.contains(&word)) && !is_read_only_command(command)
}

/// Commands that only look at something.
pub fn is_read_only_command(command: &str) -> bool {
    const LOOKS: [&str; 16] = [
        "ls", "cat", "head", "tail", "grep", "rg", "find", "sed", "echo", "wc", "pwd", "which", "cd", "for", "awk",
        "jq",
    ];
    LOOKS.contains(&command.split_whitespace().next().unwrap_or_default())
}

/// The commands that are worth knowing, in the order they were first run: those run again, and those that check something.
pub fn workflow_commands(digest: &Digest) -> Vec<usize> {
    let is_shown = |at: &usize| {
        let command = &digest.commands[*at];
        let length = command.text.chars().count();
        !is_read_only_command(&command.text)
            && length < 160
            && (command.runs > 1 || is_check_command(&command.text) && length < 100)
    };
    (0..digest.commands.len()).filter(is_shown).collect()
}

/// A command and how it came out.
pub fn command_line(digest: &Digest, at: usize) -> String {
    let command = &digest.commands[at];
    let runs = match (command.runs, command.failed) {
        (1, 0) => String::new(),
        (1, _) => " (failed)".into(),
        (runs, 0) => format!(" ({runs} times)"),
        (runs, failed) if command.is_failing => format!(" ({runs} times, {failed} failed, the last too)"),
        (runs, failed) => format!(" ({runs} times, {failed} failed, not the last)"),
    };
    let about = match command.about.is_empty() {
        true => String::new(),
        false => format!(": {}", escape_markdown(&command.about)),
    };
    format!("- {}{runs}{about}", inline_code(&command.text))
}

fn format_outcome(text: &str) -> String {
    match text.is_empty() {
        true => String::new(),
        false => format!(": {}", inline_code(text)),
    }
}

/// A file, what was done to it and why.
pub fn file_line(digest: &Digest, file: &TouchedFile) -> String {
    let path = inline_code(names::relative_path(&file.path, &digest.root));
    let times = |count: usize, what: &str| match count {
        0 => None,
        1 => Some(format!("{what} once")),
        count => Some(format!("{what} {count} times")),
    };
    let mut done = Vec::new();
    if file.is_new {
        done.push("new".to_owned());
    }
    done.extend(times(file.changes, "changed"));
    if file.changes == 0 {
        done.extend(times(file.reads, "read"));
    }
    let symbols = file
        .symbols
        .iter()
        .rev()
        .take(8)
        .map(|symbol| inline_code(symbol))
        .collect::<Vec<_>>();
    let symbols = match symbols.is_empty() {
        true => String::new(),
        false => format!(": {}", symbols.join(", ")),
    };
    let whys = file
        .change_reasons
        .iter()
        .rev()
        .take(2)
        .map(|why| escape_markdown(why))
        .collect::<Vec<_>>();
    let why = match whys.is_empty() {
        true if file.changes == 0 && !file.read_reason.is_empty() => {
            format!(". {}", escape_markdown(&clean::to_one_line(&file.read_reason, 140)))
        }
        true => String::new(),
        false => format!(". {}", whys.join(" / ")),
    };
    format!("- {path} ({}){symbols}{why}", done.join(", "))
}

/// A failure, and what fixed it.
pub fn failure_line(digest: &Digest, failure: &DigestFailure) -> String {
    let times = if failure.occurrences > 1 {
        format!(" {} times", failure.occurrences)
    } else {
        String::new()
    };
    let mut line = format!(
        "- {} failed{times}: {}",
        inline_code(&failure.what),
        escape_markdown(&failure.error)
    );
    if failure.fixed_at.is_some() {
        let files = failure
            .changed
            .iter()
            .rev()
            .take(4)
            .map(|at| inline_code(names::relative_path(&digest.files[*at].path, &digest.root)));
        let files = files.collect::<Vec<_>>();
        line.push_str(&match files.is_empty() {
            true => ". Went through later without a change to a file".to_owned(),
            false => format!(". Went through after changes to {}", files.join(", ")),
        });
        if !failure.cause.is_empty() {
            line.push_str(&format!(". {}", escape_markdown(&failure.cause)));
        }
    } else if is_still_failing(digest, failure) {
        line.push_str(". Not fixed yet");
    }
    line
}

/// A question and its answer.
pub fn choice_line(choice: &UserChoice) -> String {
    format!(
        "- Decided: {}: {}",
        escape_markdown(&choice.question),
        inline_quote(&choice.answer, 300)
    )
}

/// The newest sentences of a sense in their order, each once.
pub fn best_sentences(digest: &Digest, sense: SentenceKind, most: usize) -> Vec<&str> {
    let mut found = Vec::<&str>::new();
    for said in digest.sentences.iter().rev().filter(|said| said.kind == sense) {
        if found.len() == most {
            break;
        }
        if !found.contains(&said.text.as_str()) {
            found.push(&said.text);
        }
    }
    found.reverse();
    found
}

/// Folders of the project with files in play: how many, and how many of them were changed; the busiest first.
pub fn busiest_folders(digest: &Digest) -> Vec<(String, usize, usize)> {
    let mut folders = std::collections::BTreeMap::<&str, (usize, usize)>::new();
    for file in &digest.files {
        let path = names::relative_path(&file.path, &digest.root);
        let folder = path.rfind('/').map_or(".", |at| &path[..at]);
        let entry = folders.entry(folder).or_default();
        entry.0 += 1;
        entry.1 += usize::from(file.changes > 0);
    }
    let mut folders = folders
        .into_iter()
        .map(|(folder, (files, changed))| (folder.to_owned(), files, changed))
        .collect::<Vec<_>>();
    folders.sort_by_key(|(_, files, changed)| (std::cmp::Reverse(*changed), std::cmp::Reverse(*files)));
    folders
}

fn format_file_count(files: usize) -> String {
    if files == 1 {
        "1 file".into()
    } else {
        format!("{files} files")
    }
}

/// A time at the head of a line.
pub fn time_prefix(time: Option<Time>) -> String {
    let time = time.and_then(|time| jiff::Timestamp::from_millisecond(time).ok());
    time.map(|time| format!("{} ", time.strftime("%Y-%m-%d %H:%M")))
        .unwrap_or_default()
}
