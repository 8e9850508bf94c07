//! What a user's question about themselves depends on: a name, a noun with its modifier, a measure. In a large directory every
//! single word of such a question may occur; if no memory has them together, there is no answer. Pure.

use super::index::LINE_END;
use language::words::{is_advice_word, is_filler, is_stop_word};

/// How many of the best memories are searched for a statement: twice as many as are shown, since a question can ask for several
/// things at once.
pub const MAX_STATEMENT_MEMORIES: usize = 10;

/// How many of the best memories are searched for a measure: as many as are shown.
const MAX_MEASURE_MEMORIES: usize = 5;

/// Largest distance of words in a line that belong together.
const LINK_DISTANCE: usize = 8;

/// Largest distance of words of a title, which are quoted as they are.
const QUOTED_DISTANCE: usize = 2;

const FIRST_PERSON: [&str; 10] = ["i", "my", "me", "we", "our", "mine", "im", "ive", "id", "ill"];

/// Words that a verb follows.
const SUBJECTS: [&str; 13] = [
    "i", "we", "you", "they", "he", "she", "it", "who", "im", "ive", "id", "ill", "been",
];

/// Words that start a question for a fact.
const OPENINGS: [&str; 19] = [
    "how", "what", "when", "where", "which", "who", "whose", "whom", "did", "do", "does", "have", "has", "had", "is",
    "was", "were", "are", "am",
];

/// Words of a query that asks for help, or about someone else's statements.
const NON_FACT_WORDS: [&str; 8] = ["you", "your", "yours", "should", "could", "would", "can", "shall"];

/// Verbs before a subject in a question.
const AUXILIARIES: [&str; 13] = [
    "did", "does", "do", "has", "have", "had", "is", "was", "were", "are", "am", "will", "would",
];

const FORMS_OF_BE: [&str; 9] = ["am", "is", "are", "was", "were", "be", "been", "being", "im"];

const PREPOSITIONS: [&str; 10] = ["from", "in", "at", "by", "with", "of", "for", "to", "on", "about"];

const DETERMINERS: [&str; 11] = [
    "the", "my", "our", "a", "an", "his", "her", "their", "its", "this", "that",
];

/// Abbreviations: a period after one does not end the sentence.
const TITLES: [&str; 6] = ["dr", "mr", "mrs", "ms", "prof", "st"];

/// Words that join, measure, compare or name a time. They depend on how a question is put, not on what a memory states.
const NON_THING_WORDS: &str = "every each across throughout near nearby along among within without per via toward towards upon despite \
    except including excluding versus vs worth compared since until besides else regarding concerning according behind \
    beside beyond around average percentage percent count increase decrease difference approximate total sum ratio rate \
    amount number size length duration higher lower highest lowest larger smaller older younger main major similar same \
    different various significant specific certain particular single whole entire overall combined altogether together \
    regular typical next last previous former latter current recent early late earlier later item items piece pieces type \
    kind set pair gain loss change value level maximum minimum median initial final original exact estimated additional \
    remaining extra favorite favourite frequency january february march april may june july august september october \
    november december monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays \
    fridays saturdays sundays";

/// Words in `-ly` that are not adverbs.
const NON_ADVERBS: &str = "family july italy fly belly jelly supply reply assembly lily";

/// Words that state a frequency.
const FREQUENCY_WORDS: &str = "every daily weekly monthly yearly annually twice time times day days week weeks month months year years weekend \
    weekends weekday weekdays monday mondays tuesday tuesdays wednesday wednesdays thursday thursdays friday fridays \
    saturday saturdays sunday sundays regular regularly usual usually often always rarely sometimes occasionally never";

/// Words that state a duration.
const DURATION_WORDS: &str = "minute minutes min mins hour hours hr hrs";

/// Words that state an age; so does a number.
const AGE_WORDS: &str = "old age aged turn turns turned turning birthday birthdays bear born";

/// A word of a query, which may be a stop word.
#[derive(Debug)]
pub struct QueryWord {
    /// Lowercase, without apostrophes and a possessive `'s`.
    pub text: String,
    /// Whether it has a capital letter and does not start a sentence.
    pub is_name: bool,
    starts_sentence: bool,
    /// Whether only a space or a hyphen separates it from the previous word.
    is_adjacent: bool,
    /// Whether a hyphen does.
    is_joined: bool,
    /// Whether it is in parentheses.
    is_aside: bool,
    is_quoted: bool,
}

/// Splits a query into words.
pub fn parse_words(query: &str) -> Vec<QueryWord> {
    let mut words = Vec::<QueryWord>::new();
    let (mut opens, mut follows) = (true, false);
    let (mut is_aside, mut is_quoted) = (false, false);
    for chunk in query.split_whitespace() {
        let is_sign = |character: char| !character.is_alphanumeric();
        let bare = chunk.trim_matches(is_sign);
        let start = chunk.len() - chunk.trim_start_matches(is_sign).len();
        let (lead, tail) = (&chunk[..start], &chunk[start + bare.len()..]);
        if bare.is_empty() {
            follows = false;
            continue;
        }
        follows &= lead.is_empty();
        is_aside |= lead.contains('(');
        is_quoted |= lead.contains(['\'', '\u{2018}', '"', '\u{201c}']);
        let mut is_joined = false;
        for part in bare.split_inclusive(|sign: char| is_sign(sign) && !is_apostrophe(sign)) {
            let word = part.trim_end_matches(is_sign);
            let owner = word.strip_suffix("'s").or_else(|| word.strip_suffix("\u{2019}s"));
            let text = owner.unwrap_or(word).to_lowercase().replace(is_apostrophe, "");
            if !text.is_empty() {
                // `eBay` is a name, `4K` is not.
                let is_name = word.starts_with(char::is_alphabetic) && word.contains(char::is_uppercase);
                words.push(QueryWord {
                    is_name: is_name && !opens,
                    text,
                    starts_sentence: opens,
                    is_adjacent: follows,
                    is_joined,
                    is_aside,
                    is_quoted,
                });
                opens = false;
            }
            is_joined = part.ends_with('-');
            follows = is_joined;
        }
        let is_title = tail == "." && words.last().is_some_and(|word| TITLES.contains(&word.text.as_str()));
        // An apostrophe at the end closes a quote or is a possessive: `the twins' boots`.
        let is_owner = tail.chars().all(is_apostrophe) && !is_quoted;
        is_quoted &= !tail.contains(['\'', '\u{2019}', '"', '\u{201d}']);
        is_aside &= !tail.contains(')');
        follows = tail.is_empty() || is_title || is_owner;
        opens = !is_title && tail.contains(['.', '?', '!', ':']);
    }
    words
}

fn is_apostrophe(sign: char) -> bool {
    matches!(sign, '\'' | '\u{2019}')
}

/// Returns whether users ask for themselves. Otherwise a word like `advice` may be about advice that others gave.
pub fn is_asking_for_self(words: &[QueryWord]) -> bool {
    let is_theirs =
        |word: &QueryWord| FIRST_PERSON.contains(&word.text.as_str()) || matches!(&*word.text, "you" | "any");
    // Chinese is not split into words, so the word for advice alone decides.
    words.iter().any(is_theirs) || words.iter().any(|word| !word.text.is_ascii())
}

/// What memories must state to answer a question, by the numbers of its terms.
#[derive(Debug, Default, PartialEq)]
pub struct QuestionFocus {
    links: Vec<TermLink>,
    names: Vec<usize>,
    /// Content words: a name must occur in a line with one of them.
    context_terms: u64,
    measure: Option<MeasureRequirement>,
}

/// Two terms that must be close together in a line.
#[derive(Debug, PartialEq)]
struct TermLink {
    one: usize,
    other: usize,
    within: usize,
}

/// A measure, which is stated in certain words close to what it measures.
#[derive(Debug, PartialEq)]
struct MeasureRequirement {
    /// The rarest of these is measured.
    of: Vec<usize>,
    words: &'static str,
    or_number: bool,
}

impl QuestionFocus {
    /// Parses a query. Empty if it is not a user's question about themselves. `term` returns the term of a word, `company` has
    /// the content words as bits.
    pub fn parse(words: &[QueryWord], company: u64, term: impl Fn(&str) -> Option<usize>) -> QuestionFocus {
        if !is_about_asker(words) {
            return QuestionFocus::default();
        }
        let is_thing = (0..words.len()).map(|at| is_thing(words, at)).collect::<Vec<_>>();
        let asked = asked_for_positions(words);
        let given = || (0..words.len()).filter(|at| !asked.contains(at));
        let term_at = |at: usize| term(&words[at].text);
        let links = given().flat_map(|at| find_links(words, &is_thing, at));
        let links = links.filter_map(|(one, other, within)| {
            let (one, other) = (term_at(one)?, term_at(other)?);
            (one != other).then_some(TermLink { one, other, within })
        });
        let names = given().filter(|&at| is_thing[at] && words[at].is_name && !words[at].is_aside);
        let things = (0..words.len()).filter(|&at| is_thing[at]).filter_map(term_at);
        QuestionFocus {
            links: links.collect(),
            names: names.filter_map(term_at).collect(),
            context_terms: company,
            measure: find_measure(words, things.collect(), term_at),
        }
    }

    /// Returns whether one of these memories, best first, states all that is required. `has` returns whether a word matches a
    /// term, `spelled` the spelling of a word; `rarity` has the weight of each term.
    pub fn is_stated<'a>(
        &self,
        memories: &[&[u32]],
        rarity: &[f64],
        has: impl Fn(u32, usize) -> bool,
        spelled: impl Fn(u32) -> &'a str,
    ) -> bool {
        let lines = |most: usize| {
            let memories = memories.iter().take(most);
            memories.flat_map(|words| words.split(|&word| word == LINE_END))
        };
        let is_linked = |link: &TermLink| {
            let is_one = |word| has(word, link.one);
            let is_other = |word| has(word, link.other);
            lines(MAX_STATEMENT_MEMORIES).any(|line| is_close(line, link.within, is_one, is_other))
        };
        let is_in_company = |&name: &usize| {
            let others = self.context_terms & !(1 << name);
            // With hardly any content words but the name, the name alone is enough.
            let is_alone = others.count_ones() < 2;
            let is_other = |word| (0..rarity.len()).any(|at| others >> at & 1 == 1 && has(word, at));
            lines(MAX_STATEMENT_MEMORIES).any(|line| {
                line.iter().any(|&word| has(word, name)) && (is_alone || line.iter().any(|&word| is_other(word)))
            })
        };
        let is_measured = |measure: &MeasureRequirement| {
            let of = measure
                .of
                .iter()
                .max_by(|one, other| rarity[**one].total_cmp(&rarity[**other]));
            let is_answer = |word| {
                let word = spelled(word);
                measure.or_number && is_number(word) || measure.words.split_whitespace().any(|known| known == word)
            };
            of.is_none_or(|&of| {
                lines(MAX_MEASURE_MEMORIES).any(|line| is_close(line, LINK_DISTANCE, |word| has(word, of), is_answer))
            })
        };
        self.links.iter().all(is_linked)
            && self.names.iter().all(is_in_company)
            && self.measure.as_ref().is_none_or(is_measured)
    }
}

/// Returns whether a line has two such words at most `within` words apart.
fn is_close(line: &[u32], within: usize, is_one: impl Fn(u32) -> bool, is_other: impl Fn(u32) -> bool) -> bool {
    (0..line.len()).filter(|&at| is_one(line[at])).any(|at| {
        let mut around = at.saturating_sub(within)..line.len().min(at + within + 1);
        around.any(|other| other != at && is_other(line[other]))
    })
}

/// Returns whether users ask for a fact about themselves.
fn is_about_asker(words: &[QueryWord]) -> bool {
    let has = |known: &[&str]| words.iter().any(|word| known.contains(&word.text.as_str()));
    let opens = |word: &QueryWord| word.starts_sentence && OPENINGS.contains(&word.text.as_str());
    let is_of_advice = words.iter().any(|word| is_advice_word(&word.text));
    has(&FIRST_PERSON) && !has(&NON_FACT_WORDS) && !is_of_advice && words.iter().any(opens)
}

/// Returns the positions of the words that name what is asked for (`what was the top speed of ...`). A memory may use other
/// words for it.
fn asked_for_positions(words: &[QueryWord]) -> Vec<usize> {
    let is = |at: usize, known: &[&str]| words.get(at).is_some_and(|word| known.contains(&word.text.as_str()));
    let mut asked = Vec::new();
    for what in (0..words.len()).filter(|&at| is(at, &["what"]) && is(at + 1, &["is", "was", "are", "were"])) {
        let start = (what + 2..words.len()).find(|&at| !is(at, &DETERMINERS));
        let rest = start.unwrap_or(words.len())..words.len();
        asked.extend(rest.take_while(|&at| words[at].is_adjacent && !is_stop_word(&words[at].text)));
    }
    asked
}

/// Returns whether a word names a thing: not a stop word, filler, measure or adverb, and not a verb as far as the previous words
/// show.
fn is_thing(words: &[QueryWord], at: usize) -> bool {
    let word = &words[at];
    let text = word.text.as_str();
    let is_in = |list: &str| list.split_whitespace().any(|known| known == text);
    let is_adverb = text.len() > 4 && text.ends_with("ly") && !word.is_name && !is_in(NON_ADVERBS);
    if text.len() < 2 || is_number(text) || is_stop_word(text) || is_filler(text) || is_adverb || is_in(NON_THING_WORDS)
    {
        return false;
    }
    let Some(before) = at
        .checked_sub(1)
        .map(|before| &words[before])
        .filter(|_| word.is_adjacent)
    else {
        return true;
    };
    let is_after = |known: &[&str]| known.contains(&before.text.as_str());
    let is_subject = before.is_name && at > 1 && AUXILIARIES.contains(&words[at - 2].text.as_str());
    !(is_after(&SUBJECTS) || is_subject || is_after(&FORMS_OF_BE) && text.ends_with("ing"))
}

/// Returns the pairs that a word must form with previous words, and their largest distance.
fn find_links(words: &[QueryWord], is_thing: &[bool], at: usize) -> Vec<(usize, usize, usize)> {
    let mut links = Vec::new();
    let (word, Some(before)) = (&words[at], at.checked_sub(1)) else {
        return links;
    };
    if word.is_adjacent {
        let one = &words[before];
        let is_measured = word.is_joined && is_number(&one.text) && !is_number(&word.text);
        let is_model = one.is_name && is_thing[before] && word.text.contains(|sign: char| sign.is_ascii_digit());
        let is_titled = word.is_name && TITLES.contains(&one.text.as_str());
        let is_noun = word.is_name || !(word.text.ends_with("ing") || word.text.ends_with("ed"));
        if is_measured || is_model || is_titled {
            links.push((before, at, 1));
        } else if is_noun && is_thing[before] && is_thing[at] {
            links.push((before, at, LINK_DISTANCE));
        }
    }
    let is_quoted = |at: &usize| words[*at].is_quoted;
    if is_quoted(&at) && !is_stop_word(&word.text) {
        let mut title = (0..at).rev().take_while(is_quoted);
        let before = title.find(|&at| !is_stop_word(&words[at].text));
        links.extend(before.map(|before| (before, at, QUOTED_DISTANCE)));
    }
    if is_thing[at] && word.is_name {
        links.extend(head_of_name(words, is_thing, at).map(|head| (head, at, LINK_DISTANCE)));
    }
    links
}

/// Returns the thing that a name belongs to, as in `the cottage in Dover`.
fn head_of_name(words: &[QueryWord], is_thing: &[bool], at: usize) -> Option<usize> {
    let is = |at: usize, known: &[&str]| known.contains(&words[at].text.as_str());
    let joint = (0..at).rev().find(|&joint| !is(joint, &DETERMINERS))?;
    let head = joint.checked_sub(1).filter(|_| is(joint, &PREPOSITIONS))?;
    let is_one_phrase = (joint..=at).all(|at| words[at].is_adjacent);
    (is_one_phrase && is_thing[head]).then_some(head)
}

/// Returns the measure that a question asks for; `None` if it asks for none, or for one without typical words.
fn find_measure(
    words: &[QueryWord],
    things: Vec<usize>,
    term_at: impl Fn(usize) -> Option<usize>,
) -> Option<MeasureRequirement> {
    let text = |at: usize| words.get(at).map_or("", |word| word.text.as_str());
    let how = (0..words.len()).find(|&at| text(at) == "how")?;
    let measure = |of, words, or_number| Some(MeasureRequirement { of, words, or_number });
    match (text(how + 1), text(how + 2)) {
        ("often" | "frequently", _) => measure(things, FREQUENCY_WORDS, false),
        ("much", "time") => measure(things, DURATION_WORDS, false),
        ("much", _) if text(how + 3) == "time" => measure(things, DURATION_WORDS, false),
        ("long", "do" | "does") => measure(things, DURATION_WORDS, false),
        ("old", "is" | "was" | "will" | "are" | "were") => {
            let whose = (how + 3..words.len()).find(|&at| !DETERMINERS.contains(&text(at)))?;
            measure(vec![term_at(whose)?], AGE_WORDS, true)
        }
        _ => None,
    }
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use language::words::{base_form, stem, text_stems};

    fn focus(query: &str) -> (QuestionFocus, Vec<String>) {
        let mut terms = Vec::new();
        for term in text_stems(query) {
            if !terms.contains(&term) {
                terms.push(term);
            }
        }
        let term = |word: &str| terms.iter().position(|term| *term == stem(base_form(word)));
        (QuestionFocus::parse(&parse_words(query), 0, term), terms)
    }

    fn linked(query: &str) -> Vec<String> {
        let (focus, terms) = focus(query);
        let links = focus.links.iter();
        links
            .map(|link| format!("{} {} {}", terms[link.one], terms[link.other], link.within))
            .collect()
    }

    fn named(query: &str) -> Vec<String> {
        let (focus, terms) = focus(query);
        focus.names.iter().map(|&name| terms[name].clone()).collect()
    }

    #[test]
    fn words_are_classified_by_position_and_punctuation() {
        let words = parse_words("Did Dr. Moss like my 12-string lute (the Aria) and the twins' boots? See eBay at 4K");
        let names = words.iter().filter(|word| word.is_name).map(|word| word.text.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["dr", "moss", "aria", "ebay"]);
        let opening = words
            .iter()
            .filter(|word| word.starts_sentence)
            .map(|word| word.text.as_str());
        assert_eq!(opening.collect::<Vec<_>>(), ["did", "see"]);
        let apart = words
            .iter()
            .filter(|word| !word.is_adjacent)
            .map(|word| word.text.as_str());
        assert_eq!(apart.collect::<Vec<_>>(), ["did", "the", "and", "see"]);
        let joined = words
            .iter()
            .filter(|word| word.is_joined)
            .map(|word| word.text.as_str());
        assert_eq!(joined.collect::<Vec<_>>(), ["string"]);
        assert!(words.iter().any(|word| word.is_aside && word.text == "aria"));
    }

    #[test]
    fn a_question_depends_on_its_word_pairs() {
        assert_eq!(linked("How many copper kettles did I polish?"), ["copper kettl 8"]);
        assert_eq!(linked("When did I rent the cottage in Dover?"), ["cottag dover 8"]);
        assert_eq!(
            linked("How heavy is my 12-string lute?"),
            ["12 string 1", "string lute 8"]
        );
        assert_eq!(linked("Where did I meet Dr. Moss?"), ["dr moss 1"]);
        assert_eq!(
            linked("Did I finish 'The Lanterns of Old Harbour' on the train?"),
            ["lantern old 2", "old harbour 2"]
        );
        assert_eq!(named("Did my aunt write from Dover?"), ["dover"]);
    }

    #[test]
    fn words_of_the_question_itself_are_left_out() {
        for query in [
            // The words for what is asked.
            "What was the top speed of my kite?",
            "What is the average mileage of my van?",
            // Verbs.
            "When did Ines bake bread for me?",
            "Which parcels did I send yesterday?",
            // No question, or none about oneself.
            "my copper kettle",
            "Can you find my copper kettle?",
            "Which copper kettle suits me, any tips?",
            "Where is the copper kettle?",
        ] {
            assert_eq!(linked(query), Vec::<String>::new(), "{query}");
        }
    }

    #[test]
    fn a_measure_has_words_of_its_own() {
        let measured = |query: &str| {
            let (focus, terms) = focus(query);
            let measure = focus.measure?;
            let of = measure.of.iter().map(|&term| terms[term].clone()).collect::<Vec<_>>();
            Some((of.join(" "), measure.words))
        };
        assert_eq!(
            measured("How often do I water the fern?"),
            Some(("fern".into(), FREQUENCY_WORDS))
        );
        assert_eq!(
            measured("How much time do I give to chess?"),
            Some(("chess".into(), DURATION_WORDS))
        );
        assert_eq!(
            measured("How old is my nephew now?"),
            Some(("nephew".into(), AGE_WORDS))
        );
        assert_eq!(measured("How old was I when the war ended?"), None);
        assert_eq!(measured("How many ferns do I have?"), None);
    }

    #[test]
    fn users_ask_for_advice_for_themselves() {
        let is_asked = |query: &str| is_asking_for_self(&parse_words(query));
        assert!(is_asked("A name for a boat, any ideas?") && is_asked("请推荐编辑器"));
        assert!(!is_asked("What advice does Ines give about boats?"));
    }
}
