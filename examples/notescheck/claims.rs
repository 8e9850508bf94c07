//! Statements that a text makes about a session, and whether the log contradicts them.

use super::facts::{Ending, Execution, SessionFacts};
use std::collections::BTreeMap;

/// What a statement is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClaimKind {
    Ran,
    Failing,
    Pending,
    Decided,
    Corrected,
    Uncommitted,
    Committed,
    Background,
}

pub const CLAIM_KINDS: [ClaimKind; 8] = [
    ClaimKind::Ran,
    ClaimKind::Failing,
    ClaimKind::Pending,
    ClaimKind::Decided,
    ClaimKind::Corrected,
    ClaimKind::Uncommitted,
    ClaimKind::Committed,
    ClaimKind::Background,
];

/// A statement of a text.
#[derive(Debug, Clone)]
pub struct Claim {
    pub kind: ClaimKind,
    /// What it is about: a command, a task, a quote, a path.
    pub about: String,
    /// The line that makes it.
    pub line: String,
}

/// Statements by kind, and those that are false.
#[derive(Debug, Default)]
pub struct ClaimTally {
    pub counts: BTreeMap<ClaimKind, usize>,
    pub false_claims: Vec<(Claim, String)>,
}

/// Returns the pieces of a line between backticks.
fn code_spans(line: &str) -> Vec<String> {
    let mut spans = Vec::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let ticks = rest[start..].bytes().take_while(|byte| *byte == b'`').count();
        let fence = "`".repeat(ticks);
        let inner = &rest[start + ticks..];
        let Some(end) = inner.find(&fence) else { break };
        spans.push(inner[..end].trim().to_owned());
        rest = &inner[end + ticks..];
    }
    spans
}

/// Returns the text between the first pair of quotation marks after `lead`.
fn quote_after<'l>(line: &'l str, lead: &str) -> Option<&'l str> {
    let rest = &line[line.find(lead)? + lead.len()..];
    let start = rest.find('"')?;
    // What the request refers to may stand after it, in brackets.
    let end = rest.find("\" (to \"").or(rest.rfind('"'))?;
    (end > start).then(|| &rest[start + 1..end])
}

/// Finds the statements of a text, line by line. Quoted lines are words of others and state nothing.
pub fn find_claims(text: &str) -> Vec<Claim> {
    let mut claims = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code || !line.starts_with("- ") || line.starts_with("- Earlier") || line.starts_with("- By an earlier") {
            continue;
        }
        let mut add = |kind, about: &str| {
            if !about.trim().is_empty() {
                claims.push(Claim {
                    kind,
                    about: about.to_owned(),
                    line: line.to_owned(),
                });
            }
        };
        claims_of_line(line, &mut add);
    }
    claims
}

/// Skips the date and time before a statement.
fn skip_time(body: &str) -> &str {
    let is_time = |sign: char| sign.is_ascii_digit() || matches!(sign, '-' | ':' | ' ');
    match body.starts_with(|sign: char| sign.is_ascii_digit()) {
        true => body.trim_start_matches(is_time),
        false => body,
    }
}

fn claims_of_line(line: &str, add: &mut dyn FnMut(ClaimKind, &str)) {
    // A quotation that has quotation marks itself stands between curly ones.
    let line = &line.replace(['“', '”'], "\"");
    let spans = code_spans(line);
    let body = skip_time(&line[2..]);
    let span = spans.first().map_or("", String::as_str);
    let starts = |words: &[&str]| words.iter().any(|word| body.starts_with(word));
    if starts(&["Refused", "The user refused", "Do not"]) {
        return;
    }
    let is_open = line.contains("Not fixed yet") || line.contains("Not run again since");
    if starts(&["Still failing", "Failing", "Failed at its last run"]) || is_open {
        return add(ClaimKind::Failing, span);
    }
    for lead in ["In progress: ", "Not begun: ", "Pending: ", "Not done: ", "Open: "] {
        if let Some(task) = body.strip_prefix(lead) {
            return add(ClaimKind::Pending, task);
        }
    }
    if starts(&[
        "Asked and not answered",
        "Stopped by the user",
        "Next: finish what the user asked",
        "Next: the task",
        "Next: answer",
    ]) {
        return add(ClaimKind::Pending, quote_after(line, ":").unwrap_or_default());
    }
    if starts(&["The user corrected", "Corrected", "When refusing a call"]) {
        return add(ClaimKind::Corrected, quote_after(line, ":").unwrap_or_default());
    }
    if starts(&["Commit `", "Commit ("]) {
        let subject = body.split_once("): ").map_or("", |(_, subject)| subject);
        return add(ClaimKind::Committed, subject);
    }
    if body.contains("in the background, no end in the log") {
        return add(
            ClaimKind::Background,
            body.split_once("log: ").map_or("", |(_, about)| about),
        );
    }
    if starts(&["A sub-agent was asked"]) {
        return add(ClaimKind::Background, body);
    }
    if starts(&[
        "Uncommitted",
        "Not committed",
        "Changed, no commit",
        "Also changed",
        "Untracked",
    ]) {
        return spans.iter().for_each(|path| add(ClaimKind::Uncommitted, path));
    }
    let is_decision = starts(&["Decided", "Asked \"", "Not decided"]);
    if is_decision {
        let lead = [", the user said ", ": \""]
            .into_iter()
            .find(|lead| line.contains(lead));
        let at = lead.and_then(|lead| line.rfind(lead)).unwrap_or(1);
        let answer = &line[at..];
        let answer = match (answer.find('"'), answer.rfind('"')) {
            (Some(start), Some(end)) if end > start => &answer[start + 1..end],
            _ => "",
        };
        return add(ClaimKind::Decided, answer);
    }
    let says_run = starts(&["Last command", "Last check", "Ran ", "Passed", "Done: `", "Verified `"])
        || body.starts_with('`') && (line.contains("failed") || line.contains(" times") || is_workflow_line(body));
    if says_run && !span.is_empty() && !span.starts_with("Read ") && !span.starts_with("Edit ") {
        add(ClaimKind::Ran, span);
    }
}

/// Returns whether a line has the form of a command and what it is for.
fn is_workflow_line(body: &str) -> bool {
    let Some(end) = body[1..].find('`') else { return false };
    let command = &body[1..=end];
    command.contains(' ') && !command.contains('/') && body[end + 2..].starts_with(": ")
}

/// Returns the words of a command that matter for a comparison.
fn tokens(text: &str) -> Vec<String> {
    let words = text.split(|sign: char| !(sign.is_alphanumeric() || matches!(sign, '_' | '.' | '-' | '/')));
    let words = words.map(|word| word.trim_matches(['.', '-', '/']).to_lowercase());
    words.filter(|word| !word.is_empty()).collect()
}

/// Returns whether the words of `short` stand in `long`, in their order.
fn holds_in_order(long: &[String], short: &[String]) -> bool {
    let mut at = long.iter();
    short.iter().all(|word| at.any(|other| other == word))
}

fn runs_of<'f>(facts: &'f SessionFacts, command: &str) -> Vec<&'f Execution> {
    let mut wanted = tokens(command.trim_end_matches(['…', ' ']));
    if command.ends_with('…') && wanted.len() > 2 {
        wanted.pop();
    }
    let is_it = |run: &&Execution| holds_in_order(&tokens(&run.command), &wanted);
    facts.executions.iter().filter(is_it).collect()
}

/// Returns the program of a command with its verb, and its targets: words that are neither options nor settings.
fn program_and_targets(command: &str) -> (Vec<String>, Vec<String>) {
    let is_boring = |part: &&str| {
        let first = part.split_whitespace().next().unwrap_or_default();
        !matches!(
            first,
            "cd" | "export" | "source" | "echo" | "set" | "sleep" | "mkdir" | ""
        )
    };
    let part = command
        .split(['&', ';', '|', '\n'])
        .map(str::trim)
        .find(is_boring)
        .unwrap_or(command);
    let words = part
        .split_whitespace()
        .filter(|word| !word.starts_with('-') && !word.contains('=') && !word.contains('>'));
    let wrappers = [
        "sudo", "env", "time", "timeout", "npx", "pnpm", "uv", "run", "exec", "poetry", "mise", "--",
    ];
    let words = words.filter(|word| !wrappers.contains(word) && word.parse::<f64>().is_err());
    let words = words
        .map(|word| word.trim_matches(['"', '\'']).to_owned())
        .collect::<Vec<_>>();
    let verbs = usize::from(words.len() > 1 && !words[1].contains(['/', '.'])) + 1;
    let (program, targets) = words.split_at(words.len().min(verbs));
    (program.to_vec(), targets.to_vec())
}

/// Returns whether a success of `later` shows that `command` no longer fails.
fn closes(later: &str, command: &str) -> bool {
    let (program, targets) = program_and_targets(command);
    let (other, covered) = program_and_targets(later);
    let is_wider = covered.is_empty() || !targets.is_empty() && targets.iter().all(|target| covered.contains(target));
    program == other && is_wider
}

/// Returns a text without what notes add or change: quotation marks, escapes, ellipses.
fn plain(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace('\\', "");
    let kept = text.chars().filter(|sign| sign.is_alphanumeric());
    kept.flat_map(char::to_lowercase).collect()
}

fn is_said(said: &str, quote: &str) -> bool {
    let said = plain(said);
    let pieces = quote
        .split(['…'])
        .map(plain)
        .filter(|piece| piece.len() > 3 || quote.len() < 12);
    let pieces = pieces.collect::<Vec<_>>();
    !pieces.is_empty() && pieces.iter().all(|piece| said.contains(piece.as_str()))
}

/// Returns why the log contradicts a statement; `None` if it does not.
pub fn contradiction(claim: &Claim, facts: &SessionFacts) -> Option<String> {
    match claim.kind {
        ClaimKind::Ran => false_run(claim, facts),
        ClaimKind::Failing => false_failing(claim, facts),
        ClaimKind::Pending => false_pending(claim, facts),
        ClaimKind::Decided => false_decision(claim, facts),
        ClaimKind::Corrected => false_correction(claim, facts),
        ClaimKind::Uncommitted => false_uncommitted(claim, facts),
        ClaimKind::Committed => false_commit(claim, facts),
        ClaimKind::Background => false_background(claim, facts),
    }
}

fn false_run(claim: &Claim, facts: &SessionFacts) -> Option<String> {
    // A secret in a command is masked in texts, so the command cannot be compared.
    if claim.about.contains("[secret]") {
        return None;
    }
    let runs = runs_of(facts, &claim.about);
    if runs.is_empty() {
        let is_call = |(tool, about, ending): &&(String, String, Ending)| {
            *ending != Ending::Refused && plain(&format!("{tool}{about}")).contains(&plain(&claim.about))
        };
        let is_tool = claim.about.starts_with(char::is_uppercase) || claim.about.starts_with("mcp");
        let known = is_tool || facts.calls.iter().any(|call| is_call(&call));
        return (!known).then(|| "no such command in the log".to_owned());
    }
    if runs.iter().all(|run| run.ending == Ending::Refused) {
        return Some("the command was refused".to_owned());
    }
    let last = runs.iter().rev().find(|run| run.ending != Ending::Refused)?;
    let says_success = ["went through", "Passed", "passed:", "succeeded"];
    let says_success = says_success.iter().any(|words| claim.line.contains(words)) && !claim.line.contains("failed");
    (says_success && last.ending == Ending::Failure).then(|| "its last run failed".to_owned())
}

fn false_failing(claim: &Claim, facts: &SessionFacts) -> Option<String> {
    let runs = runs_of(facts, &claim.about);
    let Some(last) = runs.iter().rev().find(|run| run.ending == Ending::Failure) else {
        let is_hidden = runs
            .iter()
            .any(|run| run.command.contains('|') || run.ending == Ending::Unknown);
        return match runs.is_empty() {
            true => Some("no such command in the log".to_owned()),
            false => (!is_hidden).then(|| "it never failed".to_owned()),
        };
    };
    let program = claim.about.split_whitespace().next().unwrap_or_default();
    if matches!(program, "grep" | "rg" | "diff" | "ls" | "which" | "test") || claim.about.contains("check-ignore") {
        return Some("its status says nothing was found".to_owned());
    }
    let closes_later = |run: &&Execution| {
        run.order > last.order && run.ending == Ending::Success && closes(&run.command, &last.command)
    };
    let fixed = facts.executions.iter().rfind(closes_later);
    fixed.map(|run| {
        format!(
            "it went through later: {}",
            run.command.lines().next().unwrap_or_default()
        )
    })
}

fn false_pending(claim: &Claim, facts: &SessionFacts) -> Option<String> {
    let task = facts.tasks.iter().find(|(task, _)| is_said(task, &claim.about));
    if let Some((_, finished)) = task {
        return finished.then(|| "the task was finished".to_owned());
    }
    if claim.line.contains("the task \"") || !claim.line.contains('"') {
        return Some("no such task in the log".to_owned());
    }
    let Some((asked, _)) = facts.words.iter().rev().find(|(_, words)| is_said(words, &claim.about)) else {
        return Some("nobody asked for it".to_owned());
    };
    if claim.line.contains("Stopped by the user") {
        let said_more = facts
            .words
            .iter()
            .any(|(at, _)| facts.last_stop.is_none_or(|stop| *at > stop));
        let went_on = facts.last_answer.max(facts.last_call) > facts.last_stop;
        return (said_more || went_on).then(|| "the session went on after it".to_owned());
    }
    let is_answered = facts.last_answer.is_some_and(|answer| answer > *asked)
        && facts.last_answer.max(facts.last_call) == facts.last_answer;
    let is_last = facts.words.last().is_some_and(|(last, _)| last <= asked);
    (is_answered || !is_last && facts.last_answer.is_some_and(|answer| answer > *asked))
        .then(|| "it was answered".to_owned())
}

fn false_decision(claim: &Claim, facts: &SessionFacts) -> Option<String> {
    if claim.line.contains("Plan: ") {
        let is_approved = claim.about.contains("approved") && !claim.about.contains("not");
        let plan = facts
            .plans
            .iter()
            .rev()
            .find(|(title, _)| is_said(&claim.line, title) && !title.is_empty());
        return match plan {
            Some((_, approved)) if *approved != is_approved => Some("the plan ended otherwise".to_owned()),
            _ => None,
        };
    }
    let question = claim.line.split(": \"").next().unwrap_or_default();
    if facts.unanswered.iter().any(|open| is_said(question, open))
        && !facts.answers.iter().any(|answer| is_said(answer, &claim.about))
    {
        return Some("nobody answered the question".to_owned());
    }
    let is_timeout = ["timed out", "timeout", "no answer", "inputvalidationerror"];
    if is_timeout.iter().any(|word| claim.about.to_lowercase().contains(word)) {
        return Some("a timeout is no decision".to_owned());
    }
    let known = facts.answers.iter().any(|answer| is_said(answer, &claim.about))
        || facts.words.iter().any(|(_, words)| is_said(words, &claim.about));
    (!known).then(|| "nobody said so".to_owned())
}

/// Words of which a correction has at least one.
const OBJECTIONS: [&str; 45] = [
    "no ",
    "no,",
    "not ",
    "n't",
    "dont",
    "wrong",
    "instead",
    "stop",
    "why",
    "revert",
    "undo",
    "actually",
    "should",
    "never",
    "without",
    "only",
    "again",
    "still",
    "but ",
    "wait",
    "rather",
    "remove",
    "incorrect",
    "mistake",
    "forgot",
    "missed",
    "missing",
    "broke",
    "fail",
    "bug",
    "不",
    "别",
    "没",
    "错",
    "为什么",
    "sorry",
    "fix",
    "error",
    "use ",
    "keep",
    "i mean",
    "too ",
    "nah",
    "又",
    "wanted",
];

fn false_correction(claim: &Claim, facts: &SessionFacts) -> Option<String> {
    if !facts.words.iter().any(|(_, words)| is_said(words, &claim.about)) {
        return Some(
            match facts.client_words.iter().any(|words| is_said(words, &claim.about)) {
                true => "the client wrote it".to_owned(),
                false => "nobody said so".to_owned(),
            },
        );
    }
    if claim.line.contains("and the model agreed") {
        let is_granted = facts.granted.iter().any(|words| is_said(words, &claim.about));
        return (!is_granted).then(|| "the model did not agree".to_owned());
    }
    // Words at a refusal may also ask or add something.
    if claim.line.contains("When refusing a call") {
        return None;
    }
    let low = format!("{} ", claim.about.to_lowercase());
    let objects = OBJECTIONS.iter().any(|word| low.contains(word));
    (!objects).then(|| "it corrects nothing".to_owned())
}

fn false_commit(claim: &Claim, facts: &SessionFacts) -> Option<String> {
    let is_it = |text: &str| is_said(text, &claim.about);
    let hash = claim
        .line
        .strip_prefix("- Commit `")
        .and_then(|rest| rest.split('`').next());
    let shown = hash.map(|hash| hash.get(..7).unwrap_or(hash));
    if shown.is_some_and(|hash| !facts.printed.contains(hash)) {
        return Some("no command printed that hash".to_owned());
    }
    if facts.commits.iter().any(|(_, subject)| is_it(subject)) {
        return None;
    }
    let tries = facts.commit_tries.iter().filter(|(command, _)| is_it(command));
    let tries = tries.collect::<Vec<_>>();
    match tries.iter().any(|(_, is_made)| *is_made) {
        true if claim.about.contains('$') => Some("the subject is a variable of the shell".to_owned()),
        true => None,
        false if tries.is_empty() => Some("no such commit in the log".to_owned()),
        false => Some("the commit was refused".to_owned()),
    }
}

fn false_background(claim: &Claim, facts: &SessionFacts) -> Option<String> {
    if claim.line.contains("A sub-agent was asked") {
        let is_receipt = claim.about.contains("agent launched successfully");
        return is_receipt.then(|| "this says only that it was started".to_owned());
    }
    let wanted = tokens(claim.about.trim_end_matches(['…', '`', '"', ' ']));
    let starts = facts.background.iter();
    let starts = starts
        .filter(|start| holds_in_order(&tokens(&start.about), &wanted))
        .collect::<Vec<_>>();
    // A tool that watches something is no command.
    if starts.is_empty() {
        let is_watch = facts.calls.iter().any(|(tool, _, _)| tool == "Monitor");
        return (!is_watch).then(|| "nothing of the kind was started".to_owned());
    }
    starts
        .iter()
        .all(|start| start.has_ended)
        .then(|| "the log has its end".to_owned())
}

fn false_uncommitted(claim: &Claim, facts: &SessionFacts) -> Option<String> {
    if claim.line.starts_with("- Also changed") || claim.line.starts_with("- Untracked") {
        let name = claim.about.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        return (!facts.git_listings.contains(name)).then(|| "git did not list it".to_owned());
    }
    let is_it = |(path, _): &(&String, &usize)| path.ends_with(claim.about.as_str());
    let Some((path, edited)) = facts.edited.iter().filter(is_it).max_by_key(|(_, order)| **order) else {
        return Some("the file was not edited".to_owned());
    };
    let covers = |(what, order): &&(String, usize)| {
        order > edited && (what.is_empty() || path.contains(what.trim_start_matches("./")))
    };
    facts
        .committed
        .iter()
        .find(covers)
        .map(|_| "it was committed after its last edit".to_owned())
}

/// Counts the statements of a text and collects the false ones.
pub fn tally_claims(text: &str, facts: &SessionFacts) -> ClaimTally {
    let mut tally = ClaimTally::default();
    for claim in find_claims(text) {
        *tally.counts.entry(claim.kind).or_default() += 1;
        if let Some(why) = contradiction(&claim, facts) {
            tally.false_claims.push((claim, why));
        }
    }
    tally
}
