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
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use std::borrow::Cow;
use std::sync::{LazyLock, OnceLock};

const BUILT_IN: [&str; 3] = [
    include_str!("rules/common.toml"),
    include_str!("rules/en.toml"),
    include_str!("rules/zh.toml"),
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

/// What becomes of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QuestionHandling {
    /// It counts less.
    #[default]
    Lower,
    /// Orders are often put as questions.
    Keep,
    /// It states nothing.
    Refuse,
}

/// A rule.
#[derive(Debug)]
pub struct ExtractionRule {
    /// Name.
    pub name: String,
    /// Type of the memories it gives.
    pub kind: MemoryKind,
    /// In what situation they apply, for the hook.
    pub when: String,
    /// What the memory says, where the hit is only an instance of it; `{slot}` is what the hit is about.
    pub says: Option<String>,
    /// Confidence of a plain hit.
    pub weight: f64,
    /// What becomes of a question.
    pub on_question: QuestionHandling,
    /// How much less it counts late in a sentence, where it is said in passing.
    pub late: f64,
    /// Whether the sentence must name a date.
    pub dated: bool,
    /// What is looked for.
    pub pattern: LazyPattern,
}

/// What else a sentence says that changes the confidence.
#[derive(Debug)]
pub struct ConfidenceShift {
    /// Name: the reason that is given for what is turned down.
    pub name: String,
    /// By how much.
    pub by: f64,
    /// Rules that it does not concern.
    pub exempt_rules: Vec<String>,
    /// What is looked for.
    pub pattern: LazyPattern,
}

/// What is never kept, or what takes back.
#[derive(Debug)]
pub struct NamedPattern {
    /// Name: the reason.
    pub name: String,
    /// What is looked for.
    pub pattern: LazyPattern,
}

/// What sentences of a language say about themselves.
#[derive(Debug)]
pub struct LanguagePhrases {
    /// Before a hit: it is taken for granted.
    pub presupposed: LazyPattern,
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
    /// What has come about, or never did.
    pub news: Option<LazyPattern>,
    /// A preference or a choice that somebody calls their own.
    pub own: Option<LazyPattern>,
    /// What is said politely, and what it comes to.
    pub rewrite: Vec<(LazyPattern, String)>,
}

/// Which pattern letters belong to.
#[derive(Debug, Clone, Copy)]
enum PatternOwner {
    Rule(usize),
    Shift(usize),
    Refuse(usize),
    Forget(usize),
}

/// What a text may match, by the letters that stand in it.
#[derive(Debug, Clone, Default)]
pub struct CandidatePatterns {
    /// Rules.
    pub rules: Vec<usize>,
    /// Shifts.
    pub shifts: Vec<usize>,
    /// Exclusions.
    pub refuse: Vec<usize>,
    /// What takes back.
    pub forget: Vec<usize>,
}

impl CandidatePatterns {
    fn add(&mut self, owner: PatternOwner) {
        let (list, at) = match owner {
            PatternOwner::Rule(at) => (&mut self.rules, at),
            PatternOwner::Shift(at) => (&mut self.shifts, at),
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
    /// Beginnings of lines that mark what is pasted.
    pub pasted: Vec<String>,
    /// Words before a colon that make the quotation after it somebody else's.
    pub others: Vec<String>,
    /// By language, in the order of the files.
    pub phrases: Vec<LanguagePhrases>,
    /// Rules.
    pub rules: Vec<ExtractionRule>,
    /// What raises and lowers.
    pub shifts: Vec<ConfidenceShift>,
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
        client_text::classify(text).is_some() || self.machine.iter().any(|prefix| has_prefix(start, prefix))
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
        let [common, english, chinese] = BUILT_IN;
        let rules = ExtractionRules::assemble(&[common, english, chinese, text])?;
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
            for rule in file.rule {
                keys.add(PatternOwner::Rule(rules.rules.len()), &rule.pattern, &rule.keys);
                rules.rules.push(rule.compile()?);
            }
            for shift in file.shift {
                keys.add(PatternOwner::Shift(rules.shifts.len()), &shift.pattern, &shift.keys);
                rules.shifts.push(ConfidenceShift {
                    name: shift.name,
                    by: shift.by,
                    exempt_rules: shift.spares,
                    pattern: LazyPattern::new(shift.pattern),
                });
            }
            for refuse in file.refuse {
                keys.add(PatternOwner::Refuse(rules.refuse.len()), &refuse.pattern, &refuse.keys);
                rules.refuse.push(refuse.compile());
            }
            for forget in file.forget {
                keys.add(PatternOwner::Forget(rules.forget.len()), &forget.pattern, &forget.keys);
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
        let shifts = self.shifts.iter().map(|shift| (&shift.name, &shift.pattern));
        let named = self
            .refuse
            .iter()
            .chain(&self.forget)
            .map(|named| (&named.name, &named.pattern));
        for (name, pattern) in rules.chain(shifts).chain(named) {
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
        for list in [&mut due.rules, &mut due.shifts, &mut due.refuse, &mut due.forget] {
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
    pasted: Vec<String>,
    #[serde(default)]
    others: Vec<String>,
    phrases: Option<PhrasesText>,
    #[serde(default)]
    rule: Vec<RuleText>,
    #[serde(default)]
    shift: Vec<ShiftText>,
    #[serde(default)]
    refuse: Vec<NamedPatternText>,
    #[serde(default)]
    forget: Vec<NamedPatternText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PhrasesText {
    presupposed: String,
    filler: String,
    why: String,
    situation: String,
    pointing: String,
    how: String,
    news: Option<String>,
    own: Option<String>,
    #[serde(default)]
    rewrite: Vec<(String, String)>,
}

impl PhrasesText {
    fn compile(self) -> LanguagePhrases {
        LanguagePhrases {
            presupposed: LazyPattern::new(self.presupposed),
            filler: LazyPattern::new(self.filler),
            why: LazyPattern::new(self.why),
            situation: LazyPattern::new(self.situation),
            pointing: LazyPattern::new(self.pointing),
            how: LazyPattern::new(self.how),
            news: self.news.map(LazyPattern::new),
            own: self.own.map(LazyPattern::new),
            rewrite: self
                .rewrite
                .into_iter()
                .map(|(pattern, to)| (LazyPattern::new(pattern), to))
                .collect(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    name: String,
    r#type: String,
    #[serde(default)]
    when: String,
    says: Option<String>,
    weight: f64,
    #[serde(default)]
    asks: QuestionHandling,
    #[serde(default)]
    late: f64,
    #[serde(default)]
    dated: bool,
    #[serde(default)]
    keys: Vec<String>,
    pattern: String,
}

impl RuleText {
    fn compile(self) -> Result<ExtractionRule, RulesError> {
        let kind = MemoryKind::parse(&self.r#type).ok_or_else(|| RulesError::Type(self.name.clone()))?;
        Ok(ExtractionRule {
            name: self.name,
            kind,
            when: self.when,
            says: self.says,
            weight: self.weight,
            on_question: self.asks,
            late: self.late,
            dated: self.dated,
            pattern: LazyPattern::new(self.pattern),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShiftText {
    name: String,
    by: f64,
    #[serde(default)]
    spares: Vec<String>,
    #[serde(default)]
    keys: Vec<String>,
    pattern: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedPatternText {
    name: String,
    #[serde(default)]
    keys: Vec<String>,
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
    fn the_built_in_rules_are_sound() {
        let rules = ExtractionRules::assemble(&BUILT_IN).expect("read");
        rules.check_patterns().expect("compiled");
        assert_eq!(rules.phrases.len(), 2);
        for phrases in &rules.phrases {
            let all = [
                &phrases.presupposed,
                &phrases.filler,
                &phrases.why,
                &phrases.situation,
                &phrases.pointing,
                &phrases.how,
            ];
            let rewrites = phrases.rewrite.iter().map(|(pattern, _)| pattern);
            let rest = rewrites.chain(&phrases.news).chain(&phrases.own);
            assert!(phrases.news.is_some() && phrases.own.is_some());
            assert!(all.into_iter().chain(rest).all(|pattern| pattern.build().is_ok()));
        }
    }

    #[test]
    fn no_built_in_rule_is_tried_on_every_sentence() {
        let always = &ExtractionRules::built_in().always;
        let names = always
            .rules
            .iter()
            .map(|at| &ExtractionRules::built_in().rules[*at].name);
        assert_eq!(names.collect::<Vec<_>>(), Vec::<&String>::new());
        assert!(always.forget.is_empty());
    }

    #[test]
    fn the_letters_of_a_pattern_are_its_own_unless_a_file_names_others() {
        let rule = |keys: &str| {
            format!("[[rule]]\nname = 'mine'\ntype = 'project'\nweight = 0.9\n{keys}pattern = 'zep+elin|balloon'")
        };
        let is_due = |rules: &ExtractionRules, text: &str| {
            rules.candidate_patterns(text).rules.contains(&(rules.rules.len() - 1))
        };
        let own = ExtractionRules::parse_with_built_in(&rule("")).expect("read");
        assert!(is_due(&own, "A Balloon") && is_due(&own, "zepelin") && !is_due(&own, "a plane"));
        let named = ExtractionRules::parse_with_built_in(&rule("keys = ['air']\n")).expect("read");
        assert!(is_due(&named, "in the air") && !is_due(&named, "a balloon"));
    }

    #[test]
    fn a_user_adds_rules_and_learns_what_is_wrong_with_them() {
        let mine = "[[rule]]\nname = 'mine'\ntype = 'project'\nweight = 0.9\nkeys = ['zeppelin']\npattern = 'zeppelin'";
        let rules = ExtractionRules::parse_with_built_in(mine).expect("read");
        assert_eq!(
            rules.candidate_patterns("The Zeppelin flies").rules,
            [rules.rules.len() - 1]
        );
        let cases = [
            ("[[rule", "TOML"),
            ("colour = 1", "colour"),
            (&mine.replace("'project'", "'hobby'"), "type"),
            (&mine.replace("pattern = 'zeppelin'", "pattern = '('"), "mine"),
        ];
        for (wrong, word) in cases {
            let error = ExtractionRules::parse_with_built_in(wrong)
                .expect_err(wrong)
                .to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
