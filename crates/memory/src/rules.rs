//! What lasting statements look like, as data.
//!
//! The built-in rules are TOML files, one a language (`rules/en.toml` explains the form); a user's file adds to them. A
//! pattern is compiled when letters that it cannot do without come up for the first time, so a run pays for the languages
//! it meets.

use crate::kinds::MemoryKind;
use crate::literals;
use aho_corasick::AhoCorasick;
use language::client_text;
use language::sentences::{Sentence, TextMarkers, has_prefix, split_user_text};
use language::traditional::simplify;
use language::words::order_verbs;
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use std::borrow::Cow;
use std::sync::{LazyLock, OnceLock};

const BUILT_IN: [&str; 3] = [
    include_str!("rules/common.toml"),
    include_str!("rules/zh.toml"),
    include_str!("rules/en.toml"),
];

/// What is wrong with a file of rules.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// Not the form.
    #[error("{0}")]
    Form(#[from] toml::de::Error),
    /// A pattern that cannot be compiled.
    #[error("pattern of `{0}`: {1}")]
    Pattern(String, String),
    /// A rule of a type that is none.
    #[error("rule `{0}`: the type is one of user, feedback, project, reference")]
    Type(String),
    /// Key words that no automaton can be built of.
    #[error("key words: {0}")]
    Keys(String),
}

/// A pattern, compiled when it is first needed. Patterns without letters beyond ASCII match bytes: that is faster, and a
/// hit that cuts a letter in two is rounded by whoever slices.
#[derive(Debug)]
pub struct LazyPattern {
    source: String,
    compiled: OnceLock<Option<Regex>>,
}

impl LazyPattern {
    fn new(source: String) -> LazyPattern {
        LazyPattern {
            source,
            compiled: OnceLock::new(),
        }
    }

    fn build(&self) -> Result<Regex, regex::Error> {
        RegexBuilder::new(&self.source)
            .case_insensitive(true)
            .unicode(!self.source.is_ascii())
            .build()
    }

    /// The expression; `None` for one that cannot be compiled, which `Rules::read` does not let in.
    pub fn regex(&self) -> Option<&Regex> {
        self.compiled.get_or_init(|| self.build().ok()).as_ref()
    }

    /// The text as the pattern reads it, as long as it is: Chinese in simplified characters.
    pub fn normalize_script<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.source.is_ascii() {
            true => Cow::Borrowed(text),
            false => simplify(text),
        }
    }

    /// Returns whether the pattern has no letters beyond ASCII.
    pub fn is_ascii(&self) -> bool {
        self.source.is_ascii()
    }

    /// Where it first matches.
    pub fn find(&self, text: &str) -> Option<std::ops::Range<usize>> {
        let found = self.regex()?.find(self.normalize_script(text).as_bytes())?.range();
        Some(text.floor_char_boundary(found.start)..text.ceil_char_boundary(found.end))
    }

    /// Whether it matches.
    pub fn is_match(&self, text: &str) -> bool {
        self.regex()
            .is_some_and(|regex| regex.is_match(self.normalize_script(text).as_bytes()))
    }
}

/// A general sign that a sentence holds in later sessions, or that it does not.
#[derive(Debug)]
pub struct Cue {
    pub name: String,
    /// Points it adds to the score of a sentence.
    pub weight: f64,
    /// What it says about whether a sentence is a lasting rule.
    pub standing: Option<StandingRole>,
    /// What is looked for.
    pub pattern: LazyPattern,
}

/// What a cue says about whether a sentence is a lasting rule. `extract::score` puts them together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StandingRole {
    /// It names a scope beyond the task.
    Scope,
    /// It asks to be remembered.
    Remember,
    /// It forbids: a rule if it is about how work is done.
    Work,
    /// It is about how work is done.
    Topic,
    /// It says where something is.
    Fact,
    /// It tells of the person.
    Person,
    /// It is a rule where a call is refused with it.
    Refusal,
}

/// A rule of the user's own file: a hit is a memory of this type with this confidence.
#[derive(Debug)]
pub struct UserRule {
    pub name: String,
    pub kind: MemoryKind,
    /// When the memory applies, for the hook; may be empty.
    pub when: String,
    /// Confidence of a hit, 0 to 1.
    pub weight: f64,
    /// What is looked for.
    pub pattern: LazyPattern,
}

/// What makes a statement one of a type.
#[derive(Debug)]
pub struct KindPattern {
    pub kind: MemoryKind,
    /// What is looked for.
    pub pattern: LazyPattern,
}

/// What is never kept, what takes back, or when a memory applies.
#[derive(Debug)]
pub struct NamedPattern {
    /// The reason, or the words for the hook.
    pub name: String,
    /// What is looked for.
    pub pattern: LazyPattern,
}

/// What sentences of a language say about themselves.
#[derive(Debug)]
pub struct LanguagePhrases {
    /// Words at the start that say nothing.
    pub filler: LazyPattern,
    /// The clause that says why.
    pub why: LazyPattern,
    /// The clause that says when.
    pub situation: LazyPattern,
    /// A sentence that cannot be understood alone.
    pub pointing: LazyPattern,
    /// A sentence that says how.
    pub how: LazyPattern,
    /// A question that is a request.
    pub request: LazyPattern,
    /// A sentence that asks for something to be done.
    pub order: LazyPattern,
    /// A sentence with a subject that says what is or must be.
    pub fact: LazyPattern,
    /// The start of a sentence that is not whole alone.
    pub fragment: LazyPattern,
    /// A condition or a scope before an order.
    pub condition: LazyPattern,
    /// What makes a statement one of a single case.
    pub specific: LazyPattern,
    /// A request, and the order that it is. Where that has `…`, the rest of the request takes its place and must be an order.
    pub rewrite: Vec<(LazyPattern, String)>,
}

/// Which pattern letters belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PatternOwner {
    Cue(usize),
    Rule(usize),
    Refuse(usize),
    Forget(usize),
}

/// What a text may match, by the letters that stand in it.
#[derive(Debug, Clone, Default)]
pub struct CandidatePatterns {
    pub cues: Vec<usize>,
    pub rules: Vec<usize>,
    pub refuse: Vec<usize>,
    pub forget: Vec<usize>,
}

impl CandidatePatterns {
    fn add(&mut self, owner: PatternOwner) {
        let (list, at) = match owner {
            PatternOwner::Cue(at) => (&mut self.cues, at),
            PatternOwner::Rule(at) => (&mut self.rules, at),
            PatternOwner::Refuse(at) => (&mut self.refuse, at),
            PatternOwner::Forget(at) => (&mut self.forget, at),
        };
        if !list.contains(&at) {
            list.push(at);
        }
    }
}

/// All rules of a run.
#[derive(Debug, Default)]
pub struct ExtractionRules {
    /// Beginnings of messages that programs write.
    pub machine: Vec<String>,
    /// Beginnings of messages that are plans of the agent.
    pub plan: Vec<String>,
    /// Beginnings of lines that mark what is pasted.
    pub pasted: Vec<String>,
    /// Words before a colon that make the quotation after it another person's.
    pub others: Vec<String>,
    /// By language, in the order of the files.
    pub phrases: Vec<LanguagePhrases>,
    pub cues: Vec<Cue>,
    /// Rules of the user's file.
    pub rules: Vec<UserRule>,
    /// Types: the first that matches counts.
    pub kinds: Vec<KindPattern>,
    /// When memories apply.
    pub activities: Vec<NamedPattern>,
    /// What is never kept.
    pub refuse: Vec<NamedPattern>,
    /// What takes back.
    pub forget: Vec<NamedPattern>,
    owners: Vec<PatternOwner>,
    keys: Option<AhoCorasick>,
    /// What needs no letters in particular.
    always: CandidatePatterns,
}

impl ExtractionRules {
    /// The built-in rules.
    pub fn built_in() -> &'static ExtractionRules {
        static RULES: LazyLock<ExtractionRules> =
            LazyLock::new(|| ExtractionRules::assemble(&BUILT_IN).unwrap_or_default());
        &RULES
    }

    /// Returns whether the client or another program wrote a message.
    pub fn is_machine_written(&self, text: &str) -> bool {
        let words = client_text::strip_context(text);
        let start = words.trim_start();
        client_text::classify(text).is_some()
            || self.is_plan(text)
            || self.machine.iter().any(|prefix| has_prefix(start, prefix))
    }

    /// Returns whether a message is a plan of the agent that the user approved.
    pub fn is_plan(&self, text: &str) -> bool {
        let words = client_text::strip_context(text);
        let start = words.trim_start();
        self.plan.iter().any(|prefix| has_prefix(start, prefix))
    }

    /// Splits a message of the user into sentences.
    pub fn split_sentences(&self, text: &str) -> Vec<Sentence> {
        let markers = TextMarkers {
            pasted: &self.pasted,
            speakers: &self.others,
        };
        split_user_text(text, &markers)
    }

    /// The built-in rules and those of a user's file.
    pub fn parse_with_built_in(text: &str) -> Result<ExtractionRules, RulesError> {
        let [common, chinese, english] = BUILT_IN;
        let rules = ExtractionRules::assemble(&[common, chinese, english, text])?;
        rules.check_patterns()?;
        Ok(rules)
    }

    fn assemble(files: &[&str]) -> Result<ExtractionRules, RulesError> {
        let mut rules = ExtractionRules::default();
        let mut keys = KeywordTable::default();
        for text in files {
            let file = toml::from_str::<RulesFile>(text)?;
            rules.machine.extend(file.machine);
            rules.pasted.extend(file.pasted);
            rules.others.extend(file.others);
            rules.phrases.extend(file.phrases.map(PhrasesText::compile));
            rules.plan.extend(file.plan);
            for cue in file.cue {
                keys.add(PatternOwner::Cue(rules.cues.len()), &cue.pattern, &[]);
                rules.cues.push(Cue {
                    name: cue.name,
                    weight: cue.weight,
                    standing: cue.standing,
                    pattern: LazyPattern::new(cue.pattern),
                });
            }
            for rule in file.rule {
                keys.add(PatternOwner::Rule(rules.rules.len()), &rule.pattern, &rule.keys);
                rules.rules.push(rule.compile()?);
            }
            for typed in file.kind {
                rules.kinds.push(KindPattern {
                    kind: MemoryKind::parse(&typed.kind).ok_or(RulesError::Type(typed.kind))?,
                    pattern: LazyPattern::new(typed.pattern),
                });
            }
            rules
                .activities
                .extend(file.activity.into_iter().map(|activity| NamedPattern {
                    name: activity.when,
                    pattern: LazyPattern::new(activity.pattern),
                }));
            for refuse in file.refuse {
                keys.add(PatternOwner::Refuse(rules.refuse.len()), &refuse.pattern, &[]);
                rules.refuse.push(refuse.compile());
            }
            for forget in file.forget {
                keys.add(PatternOwner::Forget(rules.forget.len()), &forget.pattern, &[]);
                rules.forget.push(forget.compile());
            }
        }
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .build(keys.letters)
            .map_err(|error| RulesError::Keys(error.to_string()))?;
        rules.keys = Some(automaton);
        rules.owners = keys.owners;
        rules.always = keys.always;
        Ok(rules)
    }

    /// Compiles every pattern: a user wants to know before the run, not in the middle of it.
    fn check_patterns(&self) -> Result<(), RulesError> {
        let rules = self.rules.iter().map(|rule| (&rule.name, &rule.pattern));
        let cues = self.cues.iter().map(|cue| (&cue.name, &cue.pattern));
        let named = self.refuse.iter().chain(&self.forget).chain(&self.activities);
        let named = named.map(|named| (&named.name, &named.pattern));
        for (name, pattern) in rules.chain(cues).chain(named) {
            pattern
                .build()
                .map_err(|error| RulesError::Pattern(name.clone(), error.to_string()))?;
        }
        Ok(())
    }

    /// What may match in a text, in the order of the files.
    pub fn candidate_patterns(&self, text: &str) -> CandidatePatterns {
        let mut due = self.always.clone();
        let Some(keys) = &self.keys else {
            return due;
        };
        for key in keys.find_overlapping_iter(&*simplify(text)) {
            due.add(self.owners[key.pattern().as_usize()]);
        }
        for list in [&mut due.cues, &mut due.rules, &mut due.refuse, &mut due.forget] {
            list.sort_unstable();
        }
        due
    }
}

/// Letters, and which pattern each belongs to.
#[derive(Default)]
struct KeywordTable {
    letters: Vec<String>,
    owners: Vec<PatternOwner>,
    always: CandidatePatterns,
}

impl KeywordTable {
    /// The letters that a file names for a pattern, or those that the pattern cannot do without.
    fn add(&mut self, owner: PatternOwner, pattern: &str, named: &[String]) {
        let letters = match named {
            [] => literals::required_literals(pattern),
            named => Some(named.to_vec()),
        };
        let Some(letters) = letters else {
            return self.always.add(owner);
        };
        self.owners.extend(letters.iter().map(|_| owner));
        self.letters.extend(letters);
    }
}

/// A file as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    #[serde(default)]
    machine: Vec<String>,
    #[serde(default)]
    plan: Vec<String>,
    #[serde(default)]
    pasted: Vec<String>,
    #[serde(default)]
    others: Vec<String>,
    phrases: Option<PhrasesText>,
    #[serde(default)]
    cue: Vec<CueText>,
    #[serde(default)]
    rule: Vec<RuleText>,
    #[serde(default)]
    kind: Vec<KindText>,
    #[serde(default)]
    activity: Vec<ActivityText>,
    #[serde(default)]
    refuse: Vec<NamedPatternText>,
    #[serde(default)]
    forget: Vec<NamedPatternText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PhrasesText {
    filler: String,
    why: String,
    situation: String,
    pointing: String,
    how: String,
    request: String,
    order: String,
    fact: String,
    fragment: String,
    condition: String,
    specific: String,
    #[serde(default)]
    rewrite: Vec<(String, String)>,
}

impl PhrasesText {
    fn compile(self) -> LanguagePhrases {
        let rewrite = self.rewrite.into_iter();
        let verbs = order_verbs().collect::<Vec<_>>().join("|");
        LanguagePhrases {
            filler: LazyPattern::new(self.filler),
            why: LazyPattern::new(self.why),
            situation: LazyPattern::new(self.situation),
            pointing: LazyPattern::new(self.pointing),
            how: LazyPattern::new(self.how),
            request: LazyPattern::new(self.request),
            order: LazyPattern::new(self.order.replace("VERBS", &verbs)),
            fact: LazyPattern::new(self.fact),
            fragment: LazyPattern::new(self.fragment),
            condition: LazyPattern::new(self.condition),
            specific: LazyPattern::new(self.specific),
            rewrite: rewrite.map(|(pattern, to)| (LazyPattern::new(pattern), to)).collect(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CueText {
    name: String,
    weight: f64,
    standing: Option<StandingRole>,
    pattern: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KindText {
    kind: String,
    pattern: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ActivityText {
    when: String,
    pattern: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    name: String,
    r#type: String,
    #[serde(default)]
    when: String,
    weight: f64,
    #[serde(default)]
    keys: Vec<String>,
    pattern: String,
}

impl RuleText {
    fn compile(self) -> Result<UserRule, RulesError> {
        Ok(UserRule {
            kind: MemoryKind::parse(&self.r#type).ok_or_else(|| RulesError::Type(self.name.clone()))?,
            name: self.name,
            when: self.when,
            weight: self.weight,
            pattern: LazyPattern::new(self.pattern),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedPatternText {
    name: String,
    pattern: String,
}

impl NamedPatternText {
    fn compile(self) -> NamedPattern {
        NamedPattern {
            name: self.name,
            pattern: LazyPattern::new(self.pattern),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_rules_are_sound_and_small() {
        let rules = ExtractionRules::assemble(&BUILT_IN).expect("read");
        rules.check_patterns().expect("compiled");
        assert_eq!(rules.phrases.len(), 2);
        for phrases in &rules.phrases {
            let all = [
                &phrases.filler,
                &phrases.why,
                &phrases.situation,
                &phrases.pointing,
                &phrases.how,
                &phrases.request,
                &phrases.order,
                &phrases.fact,
                &phrases.fragment,
                &phrases.condition,
                &phrases.specific,
            ];
            let rewrites = phrases.rewrite.iter().map(|(pattern, _)| pattern);
            assert!(all.into_iter().chain(rewrites).all(|pattern| pattern.build().is_ok()));
        }
        assert!(rules.kinds.iter().all(|typed| typed.pattern.build().is_ok()));
        assert!(BUILT_IN.iter().map(|text| text.len()).sum::<usize>() <= 25_000);
    }

    #[test]
    fn the_letters_of_a_pattern_are_its_own_unless_a_file_names_others() {
        let rule = |keys: &str| {
            format!("[[rule]]\nname = 'mine'\ntype = 'project'\nweight = 0.9\n{keys}pattern = 'zep+elin|balloon'")
        };
        let is_due = |rules: &ExtractionRules, text: &str| rules.candidate_patterns(text).rules == [0];
        let own = ExtractionRules::parse_with_built_in(&rule("")).expect("read");
        assert!(is_due(&own, "A Balloon") && is_due(&own, "zepelin") && !is_due(&own, "a plane"));
        let named = ExtractionRules::parse_with_built_in(&rule("keys = ['air']\n")).expect("read");
        assert!(is_due(&named, "in the air") && !is_due(&named, "a balloon"));
    }

    #[test]
    fn a_user_adds_rules_and_learns_what_is_wrong_with_them() {
        let mine = "[[rule]]\nname = 'mine'\ntype = 'project'\nweight = 0.9\npattern = 'zeppelin'";
        let rules = ExtractionRules::parse_with_built_in(mine).expect("read");
        assert_eq!(rules.candidate_patterns("The Zeppelin flies").rules, [0]);
        let cases = [
            ("[[rule", "TOML"),
            ("colour = 1", "colour"),
            (&mine.replace("'project'", "'hobby'"), "type"),
            (&mine.replace("pattern = 'zeppelin'", "pattern = '('"), "mine"),
            (&mine.replace("pattern = 'zeppelin'", ""), "pattern"),
        ];
        for (wrong, word) in cases {
            let error = ExtractionRules::parse_with_built_in(wrong)
                .expect_err(wrong)
                .to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
