//! From messages to candidates: what somebody said that will hold in later sessions.
//!
//! Every message is looked at on its own: what its writer wrote themself, sentence by sentence, against the rules. A hit
//! has the weight of its rule, raised or lowered by what else the sentence says. Then what was said more than once is put
//! together; repetition raises confidence, so that something too weak alone may count in the end. What is never kept is
//! turned down whatever its confidence. The order of the messages does not matter: they are sorted by time first, so that
//! messages which go on speaking of what was just said are known as further sources of it.

use crate::echo::EchoTracker;
use crate::kinds::{Candidate, MemorySource};
use crate::rules::{
    CandidatePatterns, ExtractionRule, ExtractionRules, LanguagePhrases, LazyPattern, QuestionHandling,
};
use jiff::civil::Date;
use language::sentences::Sentence;
use language::words::content_words;
use language::{dates, secrets};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use transcript::log::Time;
use transcript::messages::{Message, MessageRole};

/// Confidence from which a candidate counts.
pub const MIN_CONFIDENCE: f64 = 0.5;
/// Weaker hits are kept aside down to this, in case they are repeated.
const WEAK_CONFIDENCE: f64 = 0.3;
/// What a question costs where it counts less.
const QUESTION_PENALTY: f64 = 0.25;
/// What it costs to stand between quotes: somebody else's words, or words talked about.
const QUOTED_PENALTY: f64 = 0.45;
/// So much less is what stands among numbered points: mostly answers that hold for the task at hand.
const POINT_PENALTY: f64 = 0.12;
/// From here on in a sentence, something is said in passing.
const LATE_OFFSET: usize = 100;
/// Words that two statements must share to be one.
const SIMILARITY_THRESHOLD: f64 = 0.7;
/// What is left of the doubt when something is said again.
const DOUBT_FACTOR: f64 = 0.75;
/// Longest hook, as the index advises.
pub const MAX_HOOK_CHARS: usize = 130;
/// Longest title.
pub const MAX_TITLE_CHARS: usize = 60;
/// After these, "because" cannot be taken off a statement without changing it.
const BOUND_WORDS: [&str; 16] = [
    "and", "are", "but", "is", "just", "mainly", "mostly", "not", "only", "or", "partly", "simply", "so", "that's",
    "was", "were",
];

/// What came of the messages.
#[derive(Debug, Default, PartialEq)]
pub struct Extraction {
    /// What is worth keeping, oldest first.
    pub candidates: Vec<Candidate>,
    /// What was turned down, and why.
    pub rejections: Vec<Rejection>,
    /// What somebody took back: earlier memories like these should go.
    pub retractions: Vec<Retraction>,
    /// Memories that held a secret.
    pub secrets_dropped: u64,
}

/// Something that was turned down.
#[derive(Debug, Clone, PartialEq)]
pub struct Rejection {
    /// What it said, secrets masked.
    pub text: String,
    /// Why it is no memory.
    pub reason: String,
    /// Rule that it matched, if one did.
    pub rule: Option<String>,
    /// What it came to.
    pub confidence: Option<f64>,
    /// Where it was said.
    pub source: MemorySource,
}

/// Something that was taken back.
#[derive(Debug, Clone, PartialEq)]
pub struct Retraction {
    /// The words, secrets masked.
    pub text: String,
    /// Where it was said.
    pub source: MemorySource,
}

/// What one message says.
struct RuleFinding<'r> {
    rule: &'r ExtractionRule,
    confidence: f64,
    statement: String,
    /// The part of it that the rule found.
    core: String,
    why: Option<String>,
    how: Option<String>,
    context: Option<String>,
    situation: Option<String>,
    /// What it is about, where the rule says so: two of one slot are one.
    slot: Option<String>,
    words: Vec<String>,
    source: MemorySource,
    /// Messages right after it that go on speaking of it.
    echoes: Vec<MemorySource>,
    /// The part of the sentence that says it.
    clause: String,
}

/// Reads messages of any number of sessions.
pub fn extract(messages: &[Message], rules: &ExtractionRules) -> Extraction {
    extract_with_threshold(MIN_CONFIDENCE, messages, rules)
}

/// As [`extract`], with another confidence from which a candidate counts.
pub fn extract_with_threshold(min_confidence: f64, messages: &[Message], rules: &ExtractionRules) -> Extraction {
    let mut extraction = Extraction::default();
    let answers = AssistantReplies::new(messages);
    let mut findings: Vec<RuleFinding<'_>> = Vec::new();
    let mut recent = EchoTracker::default();
    for message in user_messages_by_time(messages) {
        let answered = || answers.last_reply_before(message);
        let found = read_message(message, rules, &answered, &mut extraction);
        if is_user_written(message, rules) {
            let sentences = || message.texts().flat_map(|text| rules.split_sentences(text)).collect();
            for at in recent.find_echoes(&message.session, rules, sentences) {
                findings[at].echoes.push(message_source(message));
            }
        }
        for finding in found {
            recent.add(&message.session, findings.len(), finding.rule.kind, &finding.clause);
            findings.push(finding);
        }
    }
    let mut groups = group_findings(findings);
    apply_retractions(&mut groups, &mut extraction);
    for group in groups {
        finish_group(&group, min_confidence, rules, &mut extraction);
    }
    extraction
}

/// Whether a person wrote something in a message.
fn is_user_written(message: &Message, rules: &ExtractionRules) -> bool {
    let is_put_in = message.is_meta || message.is_summary || message.is_sidechain;
    !is_put_in && message.texts().any(|text| !rules.is_machine_written(text))
}

/// The user's messages by time, each once: resumed sessions hold copies. Without a time they stand as in their log.
fn user_messages_by_time(messages: &[Message]) -> Vec<&Message> {
    let mut ordered = messages
        .iter()
        .filter(|message| message.role == MessageRole::User)
        .collect::<Vec<_>>();
    ordered.sort_by_key(|message| {
        let time = message.time.unwrap_or(i64::MAX);
        (
            time,
            &message.session,
            message.line,
            message.time.map(|_| &message.uuid),
        )
    });
    let mut seen = HashSet::new();
    ordered.retain(|message| message.uuid.is_empty() || seen.insert(message.uuid.as_str()));
    ordered
}

/// What the assistant said, by session and time.
struct AssistantReplies<'m> {
    by_session: BTreeMap<&'m str, Vec<(Time, &'m str)>>,
}

impl<'m> AssistantReplies<'m> {
    fn new(messages: &'m [Message]) -> AssistantReplies<'m> {
        let mut by_session = BTreeMap::<&str, Vec<(Time, &str)>>::new();
        for message in messages.iter().filter(|message| message.role == MessageRole::Assistant) {
            let (Some(time), Some(text)) = (message.time, message.texts().last()) else {
                continue;
            };
            by_session.entry(&message.session).or_default().push((time, text));
        }
        for texts in by_session.values_mut() {
            texts.sort_unstable();
        }
        AssistantReplies { by_session }
    }

    /// The last thing said in the session before a message.
    fn last_reply_before(&self, message: &Message) -> Option<&'m str> {
        let (time, texts) = (message.time?, self.by_session.get(message.session.as_str())?);
        let at = texts.partition_point(|(said, _)| *said < time);
        at.checked_sub(1).map(|at| texts[at].1)
    }
}

/// Where a message is.
pub fn message_source(message: &Message) -> MemorySource {
    MemorySource {
        session: message.session.clone(),
        uuid: message.uuid.clone(),
        time: message.time,
    }
}

/// What one message says, whatever stands around it.
fn read_message<'r, 'm>(
    message: &Message,
    rules: &'r ExtractionRules,
    answered: &dyn Fn() -> Option<&'m str>,
    extraction: &mut Extraction,
) -> Vec<RuleFinding<'r>> {
    let mut findings: Vec<RuleFinding<'r>> = Vec::new();
    for text in message.texts() {
        let mut last = None;
        let whole = [
            (message.is_meta, "put in by the client"),
            (message.is_summary, "summary of a compaction"),
            (message.is_sidechain, "prompt of a sub-agent"),
            (rules.is_machine_written(text), "written by a program"),
        ];
        if let Some((_, reason)) = whole.into_iter().find(|(is_so, _)| *is_so) {
            extraction.rejections.push(Rejection {
                text: secrets::mask(&truncate_words(text.trim(), 80)),
                reason: reason.to_owned(),
                rule: None,
                confidence: None,
                source: message_source(message),
            });
            continue;
        }
        let sentences = rules.split_sentences(text);
        for (at, sentence) in sentences.iter().enumerate() {
            let Some(hit) = best_rule_hit(&sentences, at, message, rules, extraction) else {
                continue;
            };
            // Neighbouring sentences that say one thing are one memory.
            if let Some(finding) = findings.last_mut().filter(|_| at > 0 && last == Some(at - 1))
                && finding.rule.kind == hit.rule.kind
                && finding.slot == hit.slot
            {
                finding.confidence = finding.confidence.max(hit.confidence);
                finding.statement = format!("{} {}", finding.statement, strip_filler(&sentence.text, rules));
                finding.words = content_words(&strip_reason(&finding.statement, finding.why.as_deref()));
                finding.how = finding
                    .how
                    .take()
                    .filter(|how| !finding.statement.ends_with(how.as_str()));
                finding.why = finding
                    .why
                    .take()
                    .or_else(|| find_clause(&sentence.text, rules, |phrases| &phrases.why));
            } else {
                findings.push(compose_finding(hit, &sentences, at, message, rules, answered));
            }
            last = Some(at);
        }
    }
    findings
}

/// A sentence that matched a rule.
struct RuleHit<'r> {
    rule: &'r ExtractionRule,
    confidence: f64,
    slot: Option<String>,
    /// Where in the sentence.
    start: usize,
}

/// The best hit of a sentence; what is turned down goes to the rejected.
fn best_rule_hit<'r>(
    sentences: &[Sentence],
    at: usize,
    message: &Message,
    rules: &'r ExtractionRules,
    extraction: &mut Extraction,
) -> Option<RuleHit<'r>> {
    let (sentence, is_last) = (&sentences[at], at + 1 == sentences.len());
    let text = &sentence.text;
    let due = rules.candidate_patterns(text);
    if due.forget.iter().any(|at| rules.forget[*at].pattern.is_match(text)) {
        extraction.retractions.push(Retraction {
            text: secrets::mask(text),
            source: message_source(message),
        });
        return None;
    }
    let mut best: Option<(RuleHit<'r>, String)> = None;
    for rule in due.rules.iter().map(|at| &rules.rules[*at]) {
        let Some((hit, lowered)) = weigh_rule(rule, sentence, &due, rules) else {
            continue;
        };
        if best.as_ref().is_none_or(|(known, _)| known.confidence < hit.confidence) {
            best = Some((hit, lowered));
        }
    }
    let (hit, lowered) = best?;
    let excluded = due.refuse.iter().map(|at| &rules.refuse[*at]);
    let excluded = excluded.into_iter().find(|refuse| refuse.pattern.is_match(text));
    let is_cut_off = is_last && text.ends_with([':', '：']);
    let cut_off = "says nothing without what follows".to_owned();
    let reason = match excluded {
        Some(refuse) => &refuse.name,
        None if is_cut_off => &cut_off,
        None if hit.confidence < WEAK_CONFIDENCE => &lowered,
        None => return Some(hit),
    };
    extraction.rejections.push(Rejection {
        text: secrets::mask(&truncate_words(text, 300)),
        reason: reason.clone(),
        rule: Some(hit.rule.name.clone()),
        confidence: Some(round_confidence(hit.confidence)),
        source: message_source(message),
    });
    None
}

/// What a rule makes of a sentence, and what lowered it most.
fn weigh_rule<'r>(
    rule: &'r ExtractionRule,
    sentence: &Sentence,
    due: &CandidatePatterns,
    rules: &ExtractionRules,
) -> Option<(RuleHit<'r>, String)> {
    let text = &sentence.text;
    let read = rule.pattern.normalize_script(text);
    let captures = rule.pattern.regex()?.captures(read.as_bytes())?;
    let start = text.floor_char_boundary(captures.get(0)?.start());
    let slot = ["slot", "slot2", "slot3", "slot4"]
        .iter()
        .find_map(|name| captures.name(name));
    let slot = slot.map(|slot| String::from_utf8_lossy(slot.as_bytes()).to_lowercase());
    if rule.dated && dates::find_dates(text, Date::constant(2000, 1, 1)).is_empty() {
        return None;
    }
    let mut confidence = rule.weight;
    let mut lowered = (0.0, "too weak");
    let mut shift = |by: f64, name: &'r str| {
        confidence += by;
        if by < lowered.0 {
            lowered = (by, name);
        }
    };
    if sentence.is_question {
        match rule.on_question {
            QuestionHandling::Keep => {}
            QuestionHandling::Lower => shift(-QUESTION_PENALTY, "a question"),
            QuestionHandling::Refuse => shift(-1.0, "a question"),
        }
    }
    if sentence.is_point {
        shift(-POINT_PENALTY, "one of several points");
    }
    let before = &text[..start];
    if before.matches('"').count() % 2 == 1 {
        shift(-QUOTED_PENALTY, "quoted");
    }
    let is_presupposed = start > 25 && has_phrase(before, rules, |phrases| &phrases.presupposed);
    if rule.late > 0.0 && (start >= LATE_OFFSET || is_presupposed) {
        shift(-rule.late, "said in passing");
    }
    let mut names = String::new();
    for known in due.shifts.iter().map(|at| &rules.shifts[*at]) {
        if !known.exempt_rules.contains(&rule.name) && known.pattern.is_match(text) {
            confidence += known.by;
            if known.by < lowered.0 {
                lowered = (known.by, "");
                names.clone_from(&known.name);
            }
        }
    }
    let reason = if lowered.1.is_empty() {
        names
    } else {
        lowered.1.to_owned()
    };
    let hit = RuleHit {
        rule,
        confidence: confidence.clamp(0.0, 0.99),
        slot,
        start,
    };
    Some((hit, reason))
}

/// Puts a finding together from the sentence and its neighbours.
fn compose_finding<'r, 'm>(
    hit: RuleHit<'r>,
    sentences: &[Sentence],
    at: usize,
    message: &Message,
    rules: &ExtractionRules,
    answered: &dyn Fn() -> Option<&'m str>,
) -> RuleFinding<'r> {
    let text = &sentences[at].text;
    let next = sentences.get(at + 1).map(|next| &next.text);
    let how = next.filter(|next| has_phrase(next, rules, |phrases| &phrases.how));
    let why = find_clause(text, rules, |phrases| &phrases.why).or_else(|| {
        let next = next?;
        let why = find_clause(next, rules, |phrases| &phrases.why)?;
        // A reason of its own sentence starts that sentence.
        next.starts_with(why.as_str()).then_some(why)
    });
    let is_pointing = has_phrase(text, rules, |phrases| &phrases.pointing);
    let context = is_pointing
        .then(|| {
            let before = at.checked_sub(1).map(|before| &sentences[before]);
            let before = before
                .filter(|before| !before.is_question)
                .map(|before| before.text.clone());
            before.or_else(|| last_sentence(answered()?, rules))
        })
        .flatten();
    let statement = strip_filler(text, rules);
    let how = how.map(|how| strip_filler(how, rules));
    let core = strip_filler(&text[clause_start(text, hit.start, rules)..], rules);
    // What points elsewhere is better told by what to do instead.
    let core = how.clone().filter(|_| is_pointing).unwrap_or(core);
    // What makes up most of the sentence is the statement itself, no reason beside it.
    let why = why.filter(|why| why.len() * 2 < text.len() || !text.contains(why.as_str()));
    RuleFinding {
        rule: hit.rule,
        confidence: hit.confidence,
        situation: find_clause(text, rules, |phrases| &phrases.situation),
        words: content_words(&strip_reason(&statement, why.as_deref())),
        core,
        statement,
        why,
        how,
        context,
        slot: hit.slot,
        source: message_source(message),
        echoes: Vec::new(),
        clause: clause_at(text, hit.start).to_owned(),
    }
}

/// What is said, without the reason: the same rule may come with another reason, or with none.
fn strip_reason(statement: &str, why: Option<&str>) -> String {
    why.map_or_else(|| statement.to_owned(), |why| statement.replace(why, ""))
}

/// The last thing a text says, shortened.
fn last_sentence(text: &str, rules: &ExtractionRules) -> Option<String> {
    let tail = &text[text.ceil_char_boundary(text.len().saturating_sub(2_000))..];
    let sentence = rules.split_sentences(tail).into_iter().next_back()?;
    // Without its end it is the rest of a table or of code.
    let is_whole = sentence.text.ends_with(['.', '!', '?', ':', '。', '！', '？']);
    is_whole.then(|| truncate_words(&sentence.text, 200))
}

/// The sentence without words at its start that say nothing.
fn strip_filler(text: &str, rules: &ExtractionRules) -> String {
    let mut rest = text.trim_matches(|sign: char| matches!(sign, '(' | ')') || sign.is_whitespace());
    if rest.len() < text.trim().len() && rest.contains(['(', ')']) {
        rest = text.trim();
    }
    for phrases in &rules.phrases {
        if let Some(found) = phrases.filler.find(rest)
            && found.start == 0
            && rest.len() - found.end > 8
        {
            rest = &rest[found.end..];
        }
    }
    let mut rest = rest.to_owned();
    for (pattern, to) in rules.phrases.iter().flat_map(|phrases| &phrases.rewrite) {
        if let Some(found) = pattern.find(&rest)
            && rest.len() - found.end > 8
        {
            rest.replace_range(found, to);
            if let Some(asked) = rest.strip_suffix(['?', '？']) {
                rest = format!("{asked}.");
            }
        }
    }
    capitalize(&rest)
}

/// With a capital letter.
fn capitalize(text: &str) -> String {
    let mut signs = text.chars();
    let first = signs.next().into_iter().flat_map(char::to_uppercase);
    first.chain(signs).collect()
}

/// What joins clauses.
const CLAUSE_SEPARATORS: [&str; 9] = [", ", "; ", ": ", " - ", " -- ", " though ", " but ", "，", "；"];

/// What a place starts, up to the next clause.
fn clause_at(text: &str, at: usize) -> &str {
    let clause = text[at..].trim_start_matches(|sign: char| !sign.is_alphanumeric());
    let end = CLAUSE_SEPARATORS.iter().filter_map(|joint| clause.find(joint)).min();
    &clause[..end.unwrap_or(clause.len())]
}

/// Where the clause starts that holds a place, if it can stand alone: it is long enough, the more so if it points at what
/// was said before it.
fn clause_start(text: &str, at: usize, rules: &ExtractionRules) -> usize {
    let before = &text[..text.ceil_char_boundary((at + 2).min(text.len()))];
    let joint = CLAUSE_SEPARATORS
        .iter()
        .filter_map(|joint| before.rfind(joint).map(|at| at + joint.len()))
        .max();
    let points = |clause: &str| has_phrase(clause, rules, |phrases| &phrases.pointing);
    let stands_alone = |start: &usize| {
        let clause = &text[*start..];
        clause.len() > 60 || (clause.len() > 32 && !points(&strip_filler(clause, rules)))
    };
    joint.filter(stands_alone).unwrap_or(0)
}

/// Whether a phrase of any language is in a text.
fn has_phrase(text: &str, rules: &ExtractionRules, phrase: fn(&LanguagePhrases) -> &LazyPattern) -> bool {
    rules.phrases.iter().any(|phrases| phrase(phrases).is_match(text))
}

/// The clause that a phrase finds, without the sign that ends the sentence.
fn find_clause(text: &str, rules: &ExtractionRules, phrase: fn(&LanguagePhrases) -> &LazyPattern) -> Option<String> {
    let found = rules.phrases.iter().find_map(|phrases| phrase(phrases).find(text))?;
    let clause = text[found].trim_end_matches(['.', '!', '?', ':', '。', '！', '？', ')', ' ']);
    Some(clause.to_owned())
}

/// What was said once or more.
struct FindingGroup<'r> {
    findings: Vec<RuleFinding<'r>>,
    confidence: f64,
}

/// Puts together what says the same.
fn group_findings(findings: Vec<RuleFinding<'_>>) -> Vec<FindingGroup<'_>> {
    let mut groups: Vec<FindingGroup<'_>> = Vec::new();
    // Only groups that share a word can be alike.
    let mut by_word: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut by_slot: BTreeMap<(String, String), usize> = BTreeMap::new();
    for finding in findings {
        let slot = finding.slot.clone().map(|slot| (finding.rule.name.clone(), slot));
        let known = match &slot {
            Some(slot) => by_slot.get(slot).copied(),
            None => find_similar_group(&finding, &groups, &by_word),
        };
        let at = known.unwrap_or(groups.len());
        match slot {
            Some(slot) => {
                by_slot.entry(slot).or_insert(at);
            }
            None => {
                for word in &finding.words {
                    let list = by_word.entry(word.clone()).or_default();
                    if list.last() != Some(&at) {
                        list.push(at);
                    }
                }
            }
        }
        match known {
            Some(at) => groups[at].findings.push(finding),
            None => groups.push(FindingGroup {
                confidence: finding.confidence,
                findings: vec![finding],
            }),
        }
    }
    for group in &mut groups {
        group.confidence = combined_confidence(&group.findings);
    }
    groups
}

/// The group that says the same, if there is one.
fn find_similar_group(
    finding: &RuleFinding<'_>,
    groups: &[FindingGroup<'_>],
    by_word: &BTreeMap<String, Vec<usize>>,
) -> Option<usize> {
    let mut shared = BTreeMap::<usize, usize>::new();
    for at in finding.words.iter().filter_map(|word| by_word.get(word)).flatten() {
        *shared.entry(*at).or_insert(0) += 1;
    }
    let likeness = |at: usize, count: usize| {
        let words = &groups[at].findings[0].words;
        let all = words.len() + finding.words.len() - count.min(words.len());
        count as f64 / all.max(1) as f64
    };
    shared
        .into_iter()
        .filter(|(at, _)| groups[*at].findings[0].rule.kind == finding.rule.kind)
        .filter(|(at, count)| likeness(*at, *count) >= SIMILARITY_THRESHOLD)
        .map(|(at, _)| at)
        .next()
}

/// Confidence of several: doubt shrinks each time it is said. What is too weak alone must come up in another session: in
/// one, the same words mostly mean the same task.
fn combined_confidence(findings: &[RuleFinding<'_>]) -> f64 {
    let best = findings.iter().map(|finding| finding.confidence).fold(0.0, f64::max);
    let times = if best < MIN_CONFIDENCE {
        let sessions = findings.iter().map(|finding| finding.source.session.as_str());
        sessions.collect::<BTreeSet<_>>().len()
    } else {
        findings.len()
    };
    let again = i32::try_from(times.saturating_sub(1)).unwrap_or(i32::MAX);
    (1.0 - (1.0 - best) * DOUBT_FACTOR.powi(again)).min(0.99)
}

/// Whether words that take something back mean a statement: they hold at least half of it, and two words.
pub fn is_retracted(statement: &[String], words: &[String]) -> bool {
    let shared = statement.iter().filter(|word| words.contains(word)).count();
    shared >= 2 && shared * 2 >= statement.len()
}

/// Takes out what was taken back later.
fn apply_retractions(groups: &mut Vec<FindingGroup<'_>>, extraction: &mut Extraction) {
    for forgotten in &extraction.retractions {
        let words = content_words(&forgotten.text);
        let is_meant = |group: &FindingGroup<'_>| {
            let is_later = group
                .findings
                .iter()
                .all(|finding| finding.source.time <= forgotten.source.time);
            is_later && is_retracted(&group.findings[0].words, &words)
        };
        groups.retain(|group| {
            let is_gone = is_meant(group);
            if is_gone {
                let finding = &group.findings[0];
                extraction
                    .rejections
                    .push(reject_finding(finding, group.confidence, "taken back later"));
            }
            !is_gone
        });
    }
}

fn reject_finding(finding: &RuleFinding<'_>, confidence: f64, reason: &str) -> Rejection {
    Rejection {
        text: secrets::mask(&truncate_words(&finding.statement, 300)),
        reason: reason.to_owned(),
        rule: Some(finding.rule.name.clone()),
        confidence: Some(round_confidence(confidence)),
        source: finding.source.clone(),
    }
}

/// Makes a candidate of a group, or says why it is none.
fn finish_group(group: &FindingGroup<'_>, min_confidence: f64, rules: &ExtractionRules, extraction: &mut Extraction) {
    // The fullest telling speaks for all; of several as full, the newest.
    let fullness = |finding: &RuleFinding<'_>| usize::from(finding.why.is_some()) + usize::from(finding.how.is_some());
    let Some(best) = group.findings.iter().max_by_key(|finding| fullness(finding)) else {
        return;
    };
    if group.confidence < min_confidence {
        let turned = group.findings.iter();
        let turned = turned.map(|finding| reject_finding(finding, finding.confidence, "too weak, and not said again"));
        extraction.rejections.extend(turned);
        return;
    }
    let mut sources = group
        .findings
        .iter()
        .flat_map(|finding| std::iter::once(&finding.source).chain(&finding.echoes))
        .cloned()
        .collect::<Vec<_>>();
    sources.sort_by(|one, other| (one.time, &one.session, &one.uuid).cmp(&(other.time, &other.session, &other.uuid)));
    sources.dedup();
    let day = best
        .source
        .time
        .and_then(|time| jiff::Timestamp::from_millisecond(time).ok());
    let day = day.map(|time| time.to_zoned(jiff::tz::TimeZone::UTC).date());
    let dated = |text: &str| day.map_or_else(|| text.to_owned(), |day| dates::annotate_relative_dates(text, day));
    let says = best.rule.says.as_ref().zip(best.slot.as_ref());
    let says = says.map(|(says, slot)| says.replace("{slot}", &capitalize(slot)));
    let (statement, why) = split_reason(&best.statement, best.why.as_deref());
    let statement = dated(&statement);
    let mut body = match &says {
        Some(says) => format!("{says} For example: {statement}"),
        None => statement,
    };
    let mut section = |head: &str, text: &Option<String>| {
        if let Some(text) = text {
            body.push_str(&format!("\n\n**{head}:** {}", dated(text)));
        }
    };
    section("Context", &best.context);
    section("Why", &why);
    // What follows an instance concerns that instance.
    section("How to apply", &best.how.clone().filter(|_| says.is_none()));
    let core = says.unwrap_or_else(|| dated(&best.core));
    let candidate = Candidate {
        kind: best.rule.kind,
        title: make_title(&core),
        hook: make_hook(best, &core, rules),
        body,
        confidence: round_confidence(group.confidence),
        sources,
    };
    accept_unless_secret(
        candidate,
        || reject_finding(best, group.confidence, "holds a secret"),
        extraction,
    );
}

/// A statement and its reason, each said once: a reason that ends the statement is taken off it, where it surely is a clause of
/// its own, and the head above it says "because" already.
fn split_reason(statement: &str, why: Option<&str>) -> (String, Option<String>) {
    let Some(why) = why else {
        return (statement.to_owned(), None);
    };
    let bare = match has_prefix_ignoring_case(why, "because ") && !has_prefix_ignoring_case(why, "because of ") {
        true => &why["because ".len()..],
        false => why.strip_prefix("因为").unwrap_or(why),
    };
    let whole = (statement.to_owned(), Some(why.to_owned()));
    let Some((head, end)) = statement.rsplit_once(why) else {
        return (whole.0, Some(bare.to_owned()));
    };
    let is_apart = head.trim_end().ends_with([',', ';', '–', '—', '，', '；']);
    // "To avoid" may belong to the verb before it, and "not just because" says something else without the rest.
    let last = head.split_whitespace().next_back().unwrap_or_default();
    let is_bound = bare.len() == why.len() || BOUND_WORDS.iter().any(|word| last.eq_ignore_ascii_case(word));
    let is_end = end.chars().all(|sign| matches!(sign, '.' | '!' | '。' | '！'));
    let head = head.trim_end_matches([' ', ',', ';', '–', '—', '，', '；']);
    if is_bound && !is_apart || !is_end || head.chars().count() < 5 {
        return whole;
    }
    let end = match end {
        "" if head.is_ascii() => ".",
        "" => "。",
        end => end,
    };
    (format!("{head}{end}"), Some(bare.to_owned()))
}

/// Whether a text starts with some ASCII words, in capitals or not.
fn has_prefix_ignoring_case(text: &str, words: &str) -> bool {
    text.get(..words.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(words))
}

/// Takes a candidate in, unless it holds a secret.
fn accept_unless_secret(candidate: Candidate, turned_down: impl FnOnce() -> Rejection, extraction: &mut Extraction) {
    let found = [&candidate.title, &candidate.hook, &candidate.body];
    // A secret that was masked on the way is one too: what is left of the memory says nothing.
    let has_secret = |text: &&String| text.contains(secrets::MASK) || !secrets::find(text).is_empty();
    if found.iter().any(has_secret) {
        extraction.secrets_dropped += 1;
        extraction.rejections.push(turned_down());
        return;
    }
    extraction.candidates.push(candidate);
}

/// Takes in a candidate that no rule found: what must never be kept is turned down all the same.
pub fn accept_candidate(
    candidate: Candidate,
    min_confidence: f64,
    rules: &ExtractionRules,
    extraction: &mut Extraction,
) {
    let sentences = rules.split_sentences(&format!("{}.\n{}", candidate.title, candidate.body));
    let excluded = sentences.iter().find_map(|sentence| {
        let due = rules.candidate_patterns(&sentence.text);
        let mut refuse = due.refuse.iter().map(|at| &rules.refuse[*at]);
        refuse.find(|refuse| refuse.pattern.is_match(&sentence.text))
    });
    let turned_down = |reason: &str| Rejection {
        text: secrets::mask(&truncate_words(&candidate.body, 300)),
        reason: reason.to_owned(),
        rule: None,
        confidence: Some(candidate.confidence),
        source: candidate.sources.first().cloned().unwrap_or_else(unknown_source),
    };
    if let Some(refuse) = excluded {
        extraction.rejections.push(turned_down(&refuse.name));
    } else if candidate.confidence < min_confidence {
        extraction.rejections.push(turned_down("too weak, and not said again"));
    } else {
        let secret = turned_down("holds a secret");
        accept_unless_secret(candidate, || secret, extraction);
    }
}

/// The source of what has none.
pub fn unknown_source() -> MemorySource {
    MemorySource {
        session: String::new(),
        uuid: String::new(),
        time: None,
    }
}

/// What a person wrote themself.
#[derive(Debug, Clone, Copy)]
pub struct UserMessage<'m> {
    /// The message.
    pub message: &'m Message,
    /// What it was said in reply to.
    pub in_reply_to: Option<&'m str>,
}

/// The messages that people wrote themselves, by time, each once.
pub fn find_user_messages<'m>(messages: &'m [Message], rules: &ExtractionRules) -> Vec<UserMessage<'m>> {
    let answers = AssistantReplies::new(messages);
    let own = user_messages_by_time(messages)
        .into_iter()
        .filter(|message| is_user_written(message, rules));
    own.map(|message| UserMessage {
        message,
        in_reply_to: answers.last_reply_before(message),
    })
    .collect()
}

/// A few words.
fn make_title(statement: &str) -> String {
    let first = statement
        .split([',', ';', '，', '；'])
        .next()
        .filter(|part| part.chars().count() > 20 && is_complete_clause(part));
    let words = first
        .unwrap_or(statement)
        .trim_end_matches(['.', '!', '?', ':', '。', '！', '？', ' ']);
    let limit = if words.is_ascii() {
        MAX_TITLE_CHARS
    } else {
        MAX_TITLE_CHARS / 2
    };
    truncate_words(words, limit)
}

/// Whether a clause says something by itself: it does not lead up to another one, and no bracket is left open.
fn is_complete_clause(clause: &str) -> bool {
    const LEADS: [&str; 15] = [
        "after", "although", "as", "because", "before", "for", "given", "if", "in", "instead", "once", "since",
        "unless", "when", "while",
    ];
    let first = clause.split(' ').next().unwrap_or_default();
    let leads = LEADS.iter().any(|lead| first.eq_ignore_ascii_case(lead));
    !leads && clause.matches('(').count() <= clause.matches(')').count()
}

/// One line that starts with the situation.
fn make_hook(finding: &RuleFinding<'_>, statement: &str, rules: &ExtractionRules) -> String {
    let one_line = statement.split_whitespace().collect::<Vec<_>>().join(" ");
    let when = finding.situation.as_deref().filter(|clause| clause.len() < 60);
    let line = match when {
        Some(clause) => {
            let rest = one_line.replace(clause, "");
            let rest = rest.trim_matches([' ', ',', '.', '，', '。']);
            let rest = if rest.len() > 8 { rest } else { one_line.as_str() };
            format!("{}: {rest}", strip_filler(clause, rules))
        }
        // Who says when themself is not told twice.
        None if has_prefix_ignoring_case(&one_line, &finding.rule.when) => one_line,
        None => format!("{}: {one_line}", finding.rule.when),
    };
    truncate_words(&line, MAX_HOOK_CHARS)
}

/// The first letters of a text, whole words where there are words.
pub fn truncate_words(text: &str, most: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(most) else {
        return text.to_owned();
    };
    let head = &text[..end];
    let whole = head
        .rfind(' ')
        .filter(|at| *at > end / 2)
        .map_or(head, |at| &head[..at]);
    format!("{}…", whole.trim_end_matches([',', ';', ':', ' ']))
}

/// Two digits: more would say more than is known.
pub fn round_confidence(confidence: f64) -> f64 {
    (confidence * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::MemoryKind;
    use proptest::prelude::*;
    use transcript::messages::MessagePart;

    fn message(at: i64, session: &str, text: &str) -> Message {
        Message {
            session: session.to_owned(),
            uuid: format!("{session}-{at}"),
            // 2026-03-04, a Wednesday.
            time: Some(1_772_582_400_000 + at * 60_000),
            line: at as u64,
            ..Message::with_parts(MessageRole::User, vec![MessagePart::Text(text.to_owned())])
        }
    }

    fn of(text: &str) -> Extraction {
        extract(&[message(0, "s", text)], ExtractionRules::built_in())
    }

    #[track_caller]
    fn yields(kind: MemoryKind, texts: &[&str]) {
        for text in texts {
            let found = of(text).candidates;
            assert!(
                found.iter().any(|candidate| candidate.kind == kind),
                "{text}: {found:?}"
            );
        }
    }

    #[track_caller]
    fn yields_nothing(texts: &[&str]) {
        for text in texts {
            let found = of(text).candidates;
            assert_eq!(found, [], "{text}");
        }
    }

    #[test]
    fn lasting_instructions() {
        yields(
            MemoryKind::Feedback,
            &[
                "Please remember that the staging box has no GPU",
                "Keep in mind that nobody on the team reads French",
                "From now on put the ticket number into the branch name.",
                "Going forward, all new scripts should be POSIX shell.",
                "Always answer in British English.",
                "never push to main directly",
                "Ok, and every time you touch the schema run the migration check.",
                "Always list the caveats when I ask about benchmarks.",
                "Don't open pull requests unless I tell you to.",
                "let's use the builder pattern everywhere",
                "Our convention is that helpers live beside their callers",
                "can we stick to the naming convention of the other packages?",
                "Could you not add emojis to the readme?",
                "Ask me before deleting branches.",
                "Make sure you read the failing log before proposing a change.",
                "You should first reproduce the crash before you patch it",
                "the agent should never run the load tests, because they cost money",
                "Commit messages should start with the issue number.",
                "stop adding docstrings to every tiny function",
                "I said no new dependencies",
                "when you make a plan, put the risks on top",
                "for PRs I want a short description and a test plan",
                "don't guess, read the code",
                "please keep answers short",
                "I'd like all new endpoints to have an integration test",
                "I never want to see force pushes on this repo",
                "can you please not touch the generated files?",
                "dont guess, read the code",
                "all future scripts must have a usage line",
                "as a general rule we log in UTC",
            ],
        );
    }

    #[test]
    fn corrections_and_confirmations() {
        yields(
            MemoryKind::Feedback,
            &[
                "That's way too wordy.",
                "your summaries are too vague",
                "You keep adding comments that repeat the code.",
                "I've told you to leave the lockfile alone",
                "you've claimed it works three times now without running it",
                "I really like how you list the risks at the end",
                "keep doing that",
                "this explanation is not good enough",
                "that summary isn't good enough",
                "you should not have removed the tests",
                "that's the level of detail I want",
            ],
        );
    }

    #[test]
    fn people_and_what_they_like() {
        yields(
            MemoryKind::User,
            &[
                "I prefer small commits over one big one.",
                "I'd rather keep the old API than break users",
                "I'm a data engineer, mostly Spark",
                "I'm not very familiar with Rust macros",
                "I usually run the tests in watch mode",
                "btw I handle the releases here",
                "I don't like magic numbers in tests",
                "I do the frontend, Tom does the backend",
                "I'm more of a backend person",
                "I'm on vacation from Thursday",
                "What would you take for the parser, considering that I prefer plain functions over classes?",
                "The queue sits in a table of its own, which I prefer over one more service to look after.",
                "I prefer short functions, so could you cut this one up, maybe we start with the parser?",
                "I'm moving the parser into one file, as per my preference for code that reads from top to bottom",
                "I'm writing the importer without a framework, as stated in my preferences, but I'm not sure how to start",
            ],
        );
    }

    #[test]
    fn projects_and_pointers() {
        yields(
            MemoryKind::Project,
            &[
                "We decided to drop Windows support because nobody used it.",
                "the intention of the queue is to survive restarts of the worker",
                "we're freezing merges on Friday",
                "legal requires that logs are kept in the EU",
                "In this repo we never check in generated files.",
                "this is the third time the cache broke the nightly build",
                "We deploy everything to a single VPS behind Caddy",
                "We explicitly chose SQLite because backups are one file.",
                "we use pnpm, not npm",
                "don't touch that table, we got burned by it last year",
                "we're moving off Heroku at the end of the month",
                "the demo for the board is on March 20",
                "this repo is public",
                "our QA environment gets wiped every night btw",
                "we have two environments, dev and prod",
                "we're transitioning to Postgres",
                "the security team requires two reviewers",
                "that's how we do it for billing, too",
            ],
        );
        yields(
            MemoryKind::Reference,
            &[
                "Bugs are tracked in Linear.",
                "please file this in Jira, project Falcon",
                "we track this kind of stuff in the Ops board on Jira",
                "the tokens are kept in 1Password",
                "The runbook for the importer lives in Notion under Ops",
            ],
        );
    }

    #[test]
    fn in_plain_words() {
        yields(
            MemoryKind::Feedback,
            &[
                "test it on a real device before you tell me it works",
                "if you're not sure, say so",
                "please only touch what I asked for",
                "that's the same mistake three times now, you forgot the fixtures",
                "run the formatter before every commit",
                "check whether a helper exists before you write one",
                "follow our usual release steps, then tag it",
                "could you stop rewriting my commit messages?",
                "please don't reformat files that you don't change",
                "tests should not depend on the clock",
                "every endpoint needs a test for the empty case",
                "errors count as failures for us, treat warnings as errors",
                "put the ticket in the title so that the bot finds it",
                "wherever possible use the shared client",
                "less prose, please",
                "never push to main",
                "commit after each step",
            ],
        );
        yields(
            MemoryKind::Project,
            &[
                "the importer runs on a tiny VPS, so stream the file",
                "CI has no GPU, skip those",
                "staging shares the queue with the demo tenant",
                "Lena reviews everything under payments, add her",
                "deploys go through Argo",
                "we're on Django 4.2, so no async ORM",
                "that's by design, clients poll",
                "we deliberately have no retries here",
            ],
        );
        yields(
            MemoryKind::User,
            &[
                "I'm a backend dev and don't know much CSS, why does it jump?",
                "I'm used to Rails, what is the same thing here?",
                "I'm on an old laptop, the build takes ages",
            ],
        );
        yields_nothing(&[
            "the workflow is failing on the second job",
            "add a retry so that uploads survive a restart",
            "before we call it done let me try it",
            "run it again before lunch",
            "how did we do that last time?",
            "can we not reuse the same lock for both?",
            "don't change anything yet, just look",
            "first fix the parser, then the tests",
            "we follow the redirect and then read the body",
            "it should never be null after this call",
            "I'd appreciate it if you could review this diff",
            "is the api behind the same cache?",
        ]);
    }

    #[test]
    fn said_in_passing() {
        yields(
            MemoryKind::Feedback,
            &[
                "fix the date bug. oh and less praise please, just the findings",
                "second time you skipped the type checker",
                "if you haven't run it, tell me so",
                "write the changelog entry and only then bump the version",
                "back to our usual routine: draft, comments, final",
                "would you mind not touching the vendored code?",
                "keep the recordings out of git",
                "player names can't end up in the logs",
                "this applies to every service we have, not to billing alone",
                "don't start the emulator, it takes ten minutes here",
                "use pytest, not unittest",
                "your notes on the migration helped, more of that please",
                "please don't recap what the diff shows",
            ],
        );
        yields(
            MemoryKind::Project,
            &[
                "gRPC was picked over REST for the internal calls",
                "we decided against a monorepo",
                "we avoid reflection in the hot path",
                "the staging cluster is behind a VPN so the webhook can't reach it",
                "our proxy only allows port 443",
                "the cache db gets wiped every night",
                "our reviewers prefer two small patches",
                "the schema is owned by the platform team",
            ],
        );
        yields(
            MemoryKind::Reference,
            &[
                "screens are in Figma, look there first",
                "the raw recordings are on the NAS",
                "crash dumps go to Sentry",
            ],
        );
        yields(
            MemoryKind::User,
            &[
                "I'm a chemist by training, explain the build to me",
                "this is my first Kotlin project",
                "English is my second language, short sentences help",
            ],
        );
        yields_nothing(&[
            "can we not show the banner when the list is empty?",
            "staging is down since the deploy",
            "what was the reason that this column was dropped?",
            "the job runs every second and that is too often, make it a minute",
            "let me try it on the big level before we call it finished",
            "you skipped line 12",
            "use the second overload here",
            "great, exactly what i wanted, thank you!!",
            "where are the screens in this folder?",
        ]);
    }

    #[test]
    fn said_to_other_agents() {
        yields(
            MemoryKind::Feedback,
            &[
                "update copilot-instructions.md to ask before it touches the fixtures",
                "Please add to cursor rules: every query has a timeout",
                "change AGENTS.md so that each new route gets a contract test",
                "my approval is required for that",
                "IMPORTANT: our importer must stay compatible with the old exports",
                "they went live without my explicit permission",
                "I will deploy the worker myself",
                "I'd like to see your plan first, then we talk",
                "before making any changes, explain what you found",
                "release notes should mention every removed flag",
                "why didn't you use the staging database for that check?",
                "you hallucinated that endpoint, it is not in the spec",
                "I don't want a quick patch, this will run for years",
                "when in doubt between two names choose the shorter one",
                "use the bundled parser so we don't have to ship another one",
                "for any change, you must think of the mobile app as well",
                "You should be using the query planner for that",
                "ask the database expert like you were supposed to",
                "that is below our team's standards",
                "the commits are authored by me, not by claude",
                "no AI attribution in pull requests",
                "I don't want you to solve the exercise for me, only to give hints",
                "argh please stop messing with my ssh config",
                "you are authorized to restart the worker",
                "for the next time limit the uploads as well",
                "I don't need to view the diff here",
                "run the linter after every change",
                "you are to delegate the styling to the design agent",
            ],
        );
        yields(
            MemoryKind::User,
            &[
                "split the workflow into jobs (if that is wise, i'm bad at yaml)",
                "my default shell is fish, write the script for that",
                "I am using mise to manage my toolchains",
                "show me step by step, I'm inexperienced with routers",
                "im new to all this so go slowly",
                "i'm being onboarded this week and mostly on the importer",
                "you are running inside a container, so there is no display",
                "I don't like singletons, and tests suffer from them",
            ],
        );
        yields(
            MemoryKind::Project,
            &[
                "we're on the free tier, keep that in mind",
                "FYI, you run inside a sandbox without a clock",
                "we moved the bucket to another region last week, fyi",
                "I'm just going to run this on my laptop, no need for a queue",
                "this is a store for my sister's pottery",
                "This is not a product but a small experiment",
                "this is a local tool, nobody else will see it",
                "I don't have any users yet, so move fast",
                "it lives in the gateway, which should be used for all logins",
                "let's go with sqlite because it needs no server",
            ],
        );
        yields_nothing(&[
            "update AGENTS.md to describe the new folders",
            "why didn't that work?",
            "let's keep it simple",
            "I asked you about the second column",
            "I just joined the choir",
            "walk me through the layers with very concise summaries of their roles",
            "the folder where such files are stored by convention",
            "use the same endpoint so we don't duplicate it?",
            "put comments everywhere in the files you created",
            "1. keep it simple\n2. only the count",
            "we don't need to specify that here",
            "It fails again:\n\n# Instructions\n\n- Explain why, be concise.\n\n# Test info\n\nsmoke.spec.ts",
        ]);
    }

    #[test]
    fn chinese() {
        yields(
            MemoryKind::Feedback,
            &[
                "请记住测试环境没有外网。",
                "以后提交信息都用英文写",
                "回答太啰嗦了",
                "你又忘了跑测试",
                "不要自动提交代码",
                "每次改完都要跑一遍测试",
                "务必先备份数据库",
                "请用中文回答",
                "别再给我加没用的空行",
                "凡是对外的脚本，都要支持静默模式",
                "能少一个依赖就不要多一个",
                "先看报错再动手",
                "分支名都要带上日期",
                "别在没问过我之前就合并",
                "以后所有改名的文件，步骤如下：先备份，再改名",
                "以後提交訊息都用英文寫",
                "請確保表格除了標題都別改",
                "更正, 图片不存在的就跳过",
                "注释不需要翻译成英文",
                "不要新建配置文件 直接写在主文件里就行",
            ],
        );
        yields(
            MemoryKind::User,
            &[
                "我更喜欢函数式的写法",
                "我是一名后端工程师",
                "我对前端不太熟悉",
                "我平时用 fish，脚本按这个写",
                "我不懂前端，多讲几句",
            ],
        );
        yields(
            MemoryKind::Project,
            &[
                "我们决定用 SQLite,因为备份方便",
                "下周五上线",
                "线上服务跑在腾讯云上，改配置要走工单",
                "老周负责网关，改之前跟他打招呼",
            ],
        );
        yields(MemoryKind::Reference, &["缺陷都记录在飞书"]);
        yields_nothing(&[
            "这个函数应该总是返回空吗?",
            "这次先不要提交",
            "为什么测试失败了?",
            "帮我写一个脚本",
            "我不记得是哪个分支了",
            "导出的事以后再说",
            "我看这样不会出错",
            "我们决定把这张图换掉",
            "这个输入框的提示用中文",
            "和昨天一样，还是报错",
            "列表始终按价格排序",
            "必须先填地址才能下单",
            "测试不能在本地跑起来，看一下",
        ]);
    }

    #[test]
    fn what_is_no_memory() {
        yields_nothing(&[
            "commit and push",
            "yes",
            "Great work, thanks!",
            "the parser should always return an error here",
            "This function must never return null.",
            "I don't remember which test it was",
            "do you remember the flag?",
            "I split the parser up as per my preference for small files, which seems to contradict what I said of the lexer",
            "don't commit for now",
            "Let's skip the docs this time.",
            "Why do we always rebuild the cache?",
            "should I always use a mutex?",
            "I want a button that exports the table.",
            "see https://example.com/issue/12 and fix it",
            "fix the typo in line 12",
            "I've never used Kafka, how do I start?",
            "what's the best way to keep moving forward?",
            "it always fails on CI",
            "never mind, found it",
            "please rename foo to bar everywhere in that file",
            "Can you leave the naming alone in this change?",
            "remember that helper which sorts the tracks? use it here",
            "The log output of the worker is too verbose, one line each is enough",
            "The session token must always be stored in the keychain",
            "Reject a graph in which a use is not dominated by its definition",
            "You are a senior reviewer. Always think step by step.",
            "fix this\nwarning: unused variable `x`\nhelp: if this is intentional, prefix it with an underscore",
            "Look everywhere at once. Report what you find.",
            "the old name still shows everywhere, please fix that",
            "don't change the tests, just the code",
            "we should add a test for this case",
            "he wrote \"always use tabs\" in the review",
            "look at this\n```\n# always use tabs\n```",
            "> never commit to main\nis this quote right?",
            "<command-name>/compact</command-name> always be brief",
            "Implement the following plan:\n\n# Plan\n\nAlways validate input. Never trust the client.",
            "High Severity\n\nThe cache should always be flushed before exit.\n\nWe never check the return value.\n\nfix this",
            "",
            "🙂",
        ]);
    }

    #[test]
    fn what_is_never_kept() {
        let cases = [
            (
                "Remember that the handler is defined in src/server/http.rs",
                "where code stands is in the code",
            ),
            (
                "Remember that commit 3f2a1b9c introduced the bug",
                "git keeps its own history",
            ),
            ("Remember that the fix was to bump the timeout", "a fix is in the code"),
            (
                "Keep in mind that the tests are still failing",
                "state of the running task",
            ),
        ];
        for (text, reason) in cases {
            let extraction = of(text);
            assert_eq!(extraction.candidates, [], "{text}");
            assert_eq!(extraction.rejections[0].reason, reason, "{text}");
        }
    }

    #[test]
    fn a_memory_with_a_secret_is_dropped_and_counted() {
        let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        let extraction = of(&format!("Remember that the deploy token is {token} and expires soon"));
        assert_eq!((extraction.candidates.len(), extraction.secrets_dropped), (0, 1));
        assert!(!format!("{extraction:?}").contains(&token));
    }

    #[test]
    fn a_candidate_says_why_how_and_when() {
        let found =
            of("Always run the linter before you commit because CI is slow. Instead of the script use make lint.");
        let [candidate] = &found.candidates[..] else {
            panic!("{found:?}");
        };
        assert_eq!(candidate.kind, MemoryKind::Feedback);
        assert!(
            candidate.body.contains("you commit.\n\n**Why:** CI is slow"),
            "{}",
            candidate.body
        );
        assert!(
            candidate
                .body
                .contains("**How to apply:** Instead of the script use make lint.")
        );
        assert!(candidate.hook.starts_with("Before you commit"), "{}", candidate.hook);
        let found = of("sure, but can we not commit the scratch files?");
        assert_eq!(found.candidates[0].title, "Do not commit the scratch files");
        let found = of("The freeze starts on Friday, so no release after that");
        assert!(found.candidates[0].body.contains("Friday (2026-03-06)"), "{found:?}");
    }

    #[test]
    fn nothing_is_said_twice() {
        let body = |text: &str| of(text).candidates[0].body.clone();
        assert_eq!(
            body("Never push to main without asking me, because the deploy runs from there!"),
            "Never push to main without asking me!\n\n**Why:** the deploy runs from there"
        );
        assert_eq!(
            body("Always squash the commits of a branch, so that reverts stay easy"),
            "Always squash the commits of a branch.\n\n**Why:** so that reverts stay easy"
        );
        assert_eq!(
            body("我们决定用 SQLite,因为备份方便"),
            "我们决定用 SQLite。\n\n**Why:** 备份方便"
        );
        for (text, why) in [
            (
                "From now on please try in all the tests of the importer to avoid mocks.",
                "to avoid mocks",
            ),
            (
                "Never add a dependency to the parser or the lexer just because it is popular.",
                "because it is popular",
            ),
        ] {
            assert_eq!(body(text), format!("{text}\n\n**Why:** {why}"));
        }
        let hook = of("From now on always sign the releases with the new key.").candidates[0]
            .hook
            .clone();
        assert_eq!(hook, "From now on always sign the releases with the new key.");
    }

    #[test]
    fn what_points_elsewhere_takes_it_along() {
        let mut answer = message(0, "s", "I wrote four pages about the cache.");
        answer.role = MessageRole::Assistant;
        let found = extract(
            &[message(1, "s", "That's too verbose."), answer],
            ExtractionRules::built_in(),
        );
        assert!(
            found.candidates[0]
                .body
                .contains("**Context:** I wrote four pages about the cache.")
        );
    }

    #[test]
    fn a_clause_that_says_little_alone_is_told_with_its_sentence() {
        let title = |text: &str| of(text).candidates[0].title.clone();
        assert_eq!(
            title("split the big patches up, our reviewers complain"),
            "Split the big patches up"
        );
        assert_eq!(
            title("account numbers are private data, so they can't go in the logs"),
            "Account numbers are private data"
        );
        assert_eq!(
            title("the importer fails, by the way I'm more of a frontend person so explain the SQL"),
            "By the way I'm more of a frontend person so explain the SQL"
        );
    }

    #[test]
    fn repetition_raises_confidence_and_order_does_not_matter() {
        let mut messages = vec![
            message(1, "a", "I prefer small commits."),
            message(5, "b", "i prefer small commits"),
            message(9, "c", "Well, I prefer small commits!"),
            message(3, "b", "file it in Linear, project Falcon"),
            message(4, "c", "can you create a ticket for that in Linear, project: Falcon?"),
        ];
        let found = extract(&messages, ExtractionRules::built_in());
        assert_eq!(found.candidates.len(), 2, "{found:?}");
        let sessions = found.candidates[0].sources.iter().map(|source| source.session.as_str());
        assert_eq!(sessions.collect::<Vec<_>>(), ["a", "b", "c"]);
        assert!(found.candidates[0].confidence > 0.85);
        assert_eq!(
            found.candidates[1].title,
            "Bugs and tasks of this work are filed under Falcon"
        );
        messages.reverse();
        messages.push(messages[0].clone());
        assert_eq!(extract(&messages, ExtractionRules::built_in()), found);
    }

    #[test]
    fn who_goes_on_with_it_is_a_source_but_takes_no_doubt_away() {
        let rule = message(1, "a", "Always list the open questions when I ask about the roadmap.");
        let alone = extract(std::slice::from_ref(&rule), ExtractionRules::built_in());
        let work = "I need you to list the open questions of the roadmap for Monday.";
        let messages = [rule, message(2, "a", work), message(3, "b", work)];
        let found = extract(&messages, ExtractionRules::built_in());
        assert_eq!(found.candidates.len(), 1, "{found:?}");
        let sources = found.candidates[0].sources.iter().map(|source| source.uuid.as_str());
        assert_eq!(sources.collect::<Vec<_>>(), ["a-1", "a-2"]);
        assert_eq!(found.candidates[0].confidence, alone.candidates[0].confidence);
    }

    #[test]
    fn what_is_taken_back_goes() {
        let messages = [
            message(1, "a", "Always use tabs in the Go files."),
            message(2, "b", "Always sign your commits."),
            message(9, "b", "Forget about always using tabs in the Go files"),
        ];
        let found = extract(&messages, ExtractionRules::built_in());
        assert_eq!(found.candidates.len(), 1);
        assert_eq!(
            (found.retractions.len(), found.rejections[0].reason.as_str()),
            (1, "taken back later")
        );
    }

    /// What the rules and the cutting of sentences look for.
    const CUES: &[&str] = &[
        "always ",
        "never ",
        "remember to ",
        "I prefer ",
        "project: X",
        "，以后都",
        "因为",
        "(",
        ")",
        "é",
        "\n",
        "```",
        "? ",
        "because ",
        "<a-b>",
        "</a-b>",
        "next Friday ",
        "- ",
    ];

    proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC{0,200}") {
            let _ = of(&text);
        }

        #[test]
        fn cues_in_any_order_are_survived(words in proptest::collection::vec(
            proptest::sample::select(CUES), 0..24)) {
            let _ = of(&words.concat());
        }

        #[test]
        fn neighbours_change_nothing(before in "\\PC{0,60}", after in "\\PC{0,60}") {
            let text = "Never force-push to shared branches.";
            let alone = of(text).candidates;
            let messages = [message(-5, "s", &before), message(0, "s", text), message(5, "t", &after)];
            let among = extract(&messages, ExtractionRules::built_in()).candidates;
            prop_assert!(among.contains(&alone[0]));
        }
    }
}
