//! Requests in a digest: the title of the session, the last request, and what short prompts refer to.

use crate::offline::compose::inline_quote;
use crate::offline::digest::{Digest, PromptChannel, UserPrompt};
use crate::offline::gist::{message_gist, quote_message};
use crate::offline::names;
use crate::offline::open_end::open_question;
use crate::offline::prose::whole_sentences;
use language::sentences::split_prose;
use language::shorten::to_one_line;
use language::words::content_words;

/// Returns the title of a session: the one in the log, the heading of its plan, else a verb phrase of its first task, or the
/// start of an earlier summary.
pub fn session_title(digest: &Digest) -> String {
    for title in [&digest.recorded_title, &digest.plan_title, &digest.proposed_title] {
        if !title.is_empty() {
            return to_one_line(title, 100);
        }
    }
    let is_specific = |prompt: &&UserPrompt| {
        states_task(prompt) && (prompt.text.split_whitespace().count() >= 3 || !prompt.text.is_ascii())
    };
    let first = digest.prompts.iter().find(is_specific);
    // A question does not say what was made of the answer; the only commit does.
    if let [commit] = digest.ledger.commits.as_slice()
        && first.is_some_and(|prompt| only_asks(&prompt.text))
        && !commit.subject.is_empty()
    {
        return to_one_line(&commit.subject, 100);
    }
    let Some(prompt) = first.or(digest.prompts.first()) else {
        let earlier = digest.earlier_summary.as_ref();
        return earlier
            .map(|earlier| first_words(earlier.section(1), &[]))
            .unwrap_or_default();
    };
    let gist = message_gist(&prompt.text, 400);
    let title = first_words(task_sentence(&gist), &POLITE_WORDS);
    let words = title.split_whitespace().count();
    if words >= 5 || !title.is_ascii() {
        return title;
    }
    // Too short to be specific: add the file that the session was about.
    let busiest = digest.files.iter().max_by_key(|file| (file.changes, file.reads));
    match busiest {
        Some(file) => format!("{title} (work on {} and around it)", names::file_name(&file.path)),
        None => title,
    }
}

/// Returns whether a prompt is a question and not a request in the form of one.
fn only_asks(text: &str) -> bool {
    const REQUESTS: [&str; 8] = ["can ", "could ", "would ", "will ", "please", "能", "请", "帮"];
    let low = text.trim_start().to_lowercase();
    has_question(text) && !REQUESTS.iter().any(|start| low.starts_with(start)) && !low.starts_with("show")
}

/// Words before the verb of a request.
const POLITE_WORDS: [&str; 25] = [
    "please", "hi", "hello", "hey", "can", "could", "you", "would", "i", "want", "need", "to", "let's", "so", "we",
    "ok", "okay", "now", "i'd", "like", "help", "me", "your", "with", "claude",
];

/// Words before which `we` is the subject of a statement and stays.
const STATED_WORDS: [&str; 10] = [
    "are", "is", "were", "should", "must", "have", "had", "get", "see", "don't",
];

/// Starts of sentences that set a scene and ask for nothing.
const SCENE_STARTS: [&str; 12] = [
    "you are",
    "you're",
    "act as",
    "as a ",
    "your role",
    "your name",
    "context:",
    "background",
    "the user",
    "here is",
    "here's",
    "i am ",
];

/// Returns the first sentence of a prompt that asks for something: after a role, a scene or a heading.
fn task_sentence(text: &str) -> &str {
    let sentences = split_prose(text);
    let sets_scene = |sentence: &&str| {
        let low = sentence.trim_start_matches(['#', '*', '-', '>', ' ']).to_lowercase();
        SCENE_STARTS.iter().any(|start| low.starts_with(start))
            || low.chars().filter(|sign| sign.is_alphabetic()).count() < 8
    };
    match sentences.iter().position(|sentence| !sets_scene(sentence)) {
        Some(at) if at > 0 => sentences[at],
        _ => text,
    }
}

/// Words that a title does not end with.
const NON_FINAL_WORDS: [&str; 36] = [
    "which", "when", "so", "it", "we", "i", "in", "the", "of", "to", "and", "a", "an", "on", "at", "for", "with", "is",
    "are", "that", "this", "from", "or", "by", "should", "can", "could", "would", "will", "must", "not", "be", "have",
    "do", "if", "…",
];

/// Most words of a title.
const MOST_TITLE_WORDS: usize = 10;

/// Returns the first words of the first line of prose, without the skipped words at its start: a clause, or up to a joint.
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
    let is_marker = |word: &str| word.len() <= 3 && word.ends_with([')', '.', ':']);
    let is_skipped = |word: &&str| {
        let bare = word.to_lowercase();
        skipped.contains(&bare.trim_matches(|sign: char| !sign.is_alphanumeric()))
            || !skipped.is_empty() && is_marker(word)
    };
    let all = line.split_whitespace().collect::<Vec<_>>();
    let is_stated = |at: usize| {
        let next = all
            .get(at + 1)
            .is_some_and(|next| STATED_WORDS.contains(&next.to_lowercase().as_str()));
        next && matches!(all[at].to_lowercase().as_str(), "we" | "i" | "you")
    };
    let start = (0..all.len()).find(|at| !is_skipped(&all[*at]) || is_stated(*at));
    let mut words = Vec::<&str>::new();
    let mut is_whole = true;
    for word in all[start.unwrap_or(0)..].iter().copied().map(short) {
        if words.len() == MOST_TITLE_WORDS {
            is_whole = false;
            break;
        }
        words.push(word);
        // One clause is enough if it has some words.
        let ends_clause = word.ends_with(['.', '?', '!', '。', ',', ';']) && words.len() >= 5;
        if ends_clause || word.ends_with(':') && words.len() >= 4 {
            break;
        }
    }
    if !is_whole {
        // What follows the last joint may be half of a phrase.
        let joint = words
            .iter()
            .rposition(|word| NON_FINAL_WORDS.contains(&word.to_lowercase().as_str()));
        words.truncate(joint.filter(|at| *at >= 4).unwrap_or(words.len()));
    }
    // A title does not end in the middle of a phrase.
    while words.len() > 3
        && words
            .last()
            .is_some_and(|word| NON_FINAL_WORDS.contains(&word.to_lowercase().as_str()))
    {
        words.pop();
    }
    let words = to_one_line(&words.join(" "), 80);
    // In a script without blanks, the title is the first clause.
    let words = match words.is_ascii() || words.contains(' ') {
        true => words,
        false => to_one_line(words.split(['，', '。', '！', '？', '；']).next().unwrap_or(&words), 30),
    };
    let mut signs = words.trim_end_matches(['.', ',', ':', ';', '?', '!', '…']).chars();
    signs
        .next()
        .map(|first| first.to_uppercase().chain(signs).collect())
        .unwrap_or_default()
}

/// Returns whether a prompt asks for something, rather than answering a question.
pub fn is_request(prompt: &UserPrompt) -> bool {
    prompt.channel != PromptChannel::Refusal && prompt.channel != PromptChannel::Shell && !is_short_answer(prompt)
}

/// Returns whether a prompt answers a question of the model in a few words.
pub fn is_short_answer(prompt: &UserPrompt) -> bool {
    prompt.channel == PromptChannel::Message
        && prompt.answered_question.is_some()
        && prompt.text.chars().count() <= 120
        && !has_question(&prompt.text)
        && answers_question(prompt)
}

/// Returns whether a short prompt can be the answer to the question before it: it agrees, refuses, chooses, or takes up one of
/// its words.
fn answers_question(prompt: &UserPrompt) -> bool {
    const REPLIES: [&str; 33] = [
        "yes", "yeah", "yep", "yup", "no", "nope", "nah", "ok", "okay", "sure", "go", "do", "proceed", "both", "all",
        "none", "neither", "either", "option", "first", "second", "let's", "lets", "please", "keep", "use", "correct",
        "exactly", "right", "good", "perfect", "skip", "continue",
    ];
    let text = prompt.text.to_lowercase();
    let first = text.split_whitespace().next().unwrap_or_default();
    let first = first.trim_matches(|sign: char| !(sign.is_alphanumeric() || sign == '\''));
    let is_choice = first.len() == 1 || first.parse::<u32>().is_ok() || !text.is_ascii();
    let is_brief = prompt.text.split_whitespace().count() <= 5;
    let shares_word = || {
        let asked = content_words(prompt.answered_question.as_deref().unwrap_or_default());
        content_words(&prompt.text).iter().any(|word| asked.contains(word))
    };
    !matches!(first, "also" | "next" | "and" | "now")
        && (is_choice || is_brief || REPLIES.contains(&first) || shares_word())
}

/// Returns whether a text is a question.
pub fn has_question(text: &str) -> bool {
    let low = text.trim_start().to_lowercase();
    const STARTS: [&str; 13] = [
        "what", "why", "how", "which", "where", "when", "who", "is ", "are ", "does ", "do ", "explain", "show",
    ];
    text.trim_end().ends_with(['?', '？']) || STARTS.iter().any(|start| low.starts_with(start))
}

/// Words that go on with what is there and state no task of their own.
const GOING_ON: [&str; 36] = [
    "commit", "push", "this", "changes", "the", "now", "and", "both", "continue", "go", "on", "ahead", "proceed", "ok",
    "okay", "yes", "yeah", "yep", "sure", "please", "thanks", "thank", "you", "great", "good", "perfect", "nice",
    "cool", "done", "it", "do", "resume", "keep", "going", "let's", "lets",
];

/// Returns whether a prompt states a task, rather than answering, thanking or letting the model go on.
pub fn states_task(prompt: &UserPrompt) -> bool {
    let mut words = prompt.text.split_whitespace().take(6);
    let goes_on = |word: &str| {
        let word = word.trim_matches(|sign: char| !sign.is_alphanumeric()).to_lowercase();
        word.is_empty() || word.parse::<u32>().is_ok() || GOING_ON.contains(&word.as_str())
    };
    let is_short = prompt.text.split_whitespace().count() <= 5;
    is_request(prompt) && !(is_short && words.all(goes_on))
}

/// Returns the last prompt that states a task, also by agreeing to what the model proposed; the last prompt if none does.
pub fn last_request(digest: &Digest) -> Option<&UserPrompt> {
    const NO_TASK: [&str; 12] = [
        "no", "nope", "nah", "not", "thanks", "thank", "great", "good", "perfect", "nice", "cool", "不用",
    ];
    let agrees = |prompt: &&UserPrompt| {
        let first = prompt.text.split_whitespace().next().unwrap_or_default().to_lowercase();
        is_short_answer(prompt) && !NO_TASK.contains(&first.trim_matches(|sign: char| !sign.is_alphanumeric()))
    };
    digest
        .prompts
        .iter()
        .rev()
        .find(|prompt| states_task(prompt) || agrees(prompt))
        .or(digest.prompts.last())
}

/// Formats what was worked on last, and whether it was answered: not if the model asked something back.
pub fn working_line(digest: &Digest, prompt: &UserPrompt, most: usize) -> String {
    let is_done = digest
        .turns
        .last()
        .is_some_and(|turn| turn.is_answered && !turn.is_retracted);
    let end = match is_done && open_question(digest).is_none() {
        true => ", answered",
        false => "",
    };
    format!("- Working on: {}{end}", quote_request(digest, prompt, most))
}

/// Returns the words of the user that the model was working on at the end; `None` if it answered them.
pub fn unanswered_request(digest: &Digest) -> Option<&UserPrompt> {
    let turn = digest.turns.last().filter(|turn| !turn.is_answered)?;
    // What the model asks back comes first.
    if digest.waiting_call().is_some() {
        return None;
    }
    let asked = &digest.prompts[turn.prompt?];
    let said = digest.prompts.iter().rev();
    let last = said.into_iter().find(|prompt| prompt.channel != PromptChannel::Shell)?;
    Some(if last.step > asked.step { last } else { asked })
}

/// Quotes a prompt with what it refers to: the question or item that it answers, or the request whose work it interrupted.
pub fn quote_request(digest: &Digest, prompt: &UserPrompt, most: usize) -> String {
    let quote = quote_message(&prompt.text, most);
    let interrupted = || {
        let mut before = digest.prompts.iter().rev().filter(|other| other.step < prompt.step);
        let request = before.find(|other| states_task(other))?;
        Some(message_gist(&request.text, 160))
    };
    let about = match prompt.channel {
        PromptChannel::Refusal => interrupted(),
        PromptChannel::Message if is_short_answer(prompt) => prompt.answered_question.clone(),
        // It goes on with what was asked before.
        PromptChannel::Message if !states_task(prompt) => interrupted(),
        _ => None,
    };
    match about {
        Some(about) => format!("{quote} (to {})", inline_quote(&about, 240)),
        None => quote,
    }
}

/// Returns what a short prompt refers to in the last text of the model: the item of a list that it names, the last question,
/// or for a bare agreement the last sentence; `None` if it refers to nothing.
pub fn referred_text(answer: &str, prompt: &str) -> Option<String> {
    if prompt.chars().count() > 120 || answer.is_empty() {
        return None;
    }
    let first = prompt.split_whitespace().next().unwrap_or_default();
    let first = first.trim_matches(|sign: char| !sign.is_alphanumeric()).to_lowercase();
    let is_number = first.parse::<u32>().is_ok();
    let is_choice = prompt.split_whitespace().count() <= if is_number { 10 } else { 4 }
        && (first.parse::<u32>().is_ok() || first.len() == 1 && first.bytes().all(|byte| byte.is_ascii_lowercase()));
    if is_choice {
        let is_item = |line: &&str| {
            let line = line.trim_start_matches(['-', '*', '#', ' ', '(', '|']).to_lowercase();
            let line = line.strip_prefix("option ").unwrap_or(&line);
            line.strip_prefix(first.as_str())
                .is_some_and(|rest| rest.trim_start_matches(' ').starts_with(['.', ')', ':', '*', '|']))
        };
        if let Some(item) = answer.lines().rev().map(str::trim).find(is_item) {
            let item = item.trim_matches(['-', '*', '#', ' ', '|']).replace(" | ", ", ");
            return Some(whole_sentences(&item, 240));
        }
    }
    let sentences = split_prose(answer);
    let asks = |sentence: &&&str| sentence.ends_with(['?', '？']);
    if let Some(question) = sentences.iter().rev().take(4).find(asks) {
        return Some(whole_sentences(question, 240));
    }
    let is_brief = prompt.split_whitespace().count() <= 8;
    let agrees =
        is_brief && ["yes", "proceed", "ok", "okay", "sure", "go", "both", "all", "do"].contains(&first.as_str());
    let last = sentences.last().filter(|_| agrees)?;
    Some(whole_sentences(last, 240))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_prompt_refers_to_an_item_a_question_or_the_last_sentence() {
        let answer = "Two ways:\n\n1. Keep the table.\n2. **Drop the table.** It is empty.\n\nWhich one do you prefer?";
        assert_eq!(
            referred_text(answer, "2").as_deref(),
            Some("2. **Drop the table.** It is empty.")
        );
        assert_eq!(
            referred_text(answer, "the first").as_deref(),
            Some("Which one do you prefer?")
        );
        assert_eq!(
            referred_text("I can remove both.", "yes for both").as_deref(),
            Some("I can remove both.")
        );
        assert_eq!(referred_text("I removed both.", "now test it"), None);
        let table = "| # | What |\n|---|---|\n| 1 | Faster start |\n| 2 | Smaller files |";
        assert_eq!(
            referred_text(table, "2 sounds like the one to do").as_deref(),
            Some("2, Smaller files")
        );
    }

    #[test]
    fn a_task_sentence_skips_roles_and_scenes() {
        assert_eq!(
            task_sentence("You are a careful engineer. Fix the login form."),
            "Fix the login form."
        );
        assert_eq!(
            task_sentence("Fix the login form. It fails."),
            "Fix the login form. It fails."
        );
    }
}
