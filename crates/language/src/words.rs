//! Words that can be compared: lower case, no stop words, base forms for irregular ones, Chinese as pairs of characters, and
//! stems.

use crate::traditional::simplify;
use rust_stemmers::{Algorithm, Stemmer};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

/// Words that carry no topic.
const STOP: &str = "a about above after again against all also am an and any are as at be because been before being below \
    between both but by can cannot could did do does doing down during each few for from further get got had has have \
    having he her here hers herself him himself his how i if in into is it its itself just lets me more most my myself no \
    nor not now of off on once only or other our ours ourselves out over own same she should so some such than that the \
    their theirs them themselves then there these they this those through to too under until up very was we were what \
    when where which while who whom why will with would you your yours yourself yourselves s t m ve ll d re im ive id ill \
    youre youve thats arent cant couldnt didnt doesnt dont hadnt hasnt havent isnt wasnt werent wont wouldnt";

/// Words of the question rather than of its topic: they count less.
const FILLER: &str = "actually advice ago already also amount another any anything around attend attended back best better bought buy \
    came certain chat chatted check choose choosing clarify come complete completed confirm conversation curious \
    current currently day days describe did different discuss discussed discussing discussion done earlier earliest \
    eight even ever everything exactly explain extra feel feeling find first five following found four gave get \
    getting give go going good happen happened have having held help hold idea ideas interesting keep kind know last \
    lately later latest like likely long looking made make making many may maybe mention mentioned mentioning might \
    mind month months much name need new nine notice noticed noticing number often old one option options order \
    participate participated participating pass passed past per planning please possible previous probably provide \
    really reason recall recent recently recommend recommendation recommendations related relating remember remind \
    said say seem seemed seems seven since six some something soon sort specific spend spent start started still \
    struggle struggling suggest suggestion suggestions sure take taken talked tell ten think thinking thought three \
    time times tips told took total try trying two type typically upcoming use used using usually various visit \
    visited want wanted week weeks went wonder wondering year years 什么 怎么 怎样 我们 你们 他们 这个 那个 可以 如何 哪个 哪些 为什 应该 需要 一下";

/// Words that ask for advice.
const ADVICE: &str = "advice advise idea ideas recommend recommendation recommendations suggest suggestion suggestions tip tips 建议 推荐";

/// Base forms and their irregular forms, one base form per line.
const FORMS: &str = include_str!("words/forms.txt");

/// Verbs that orders start with.
const VERBS: &str = include_str!("words/verbs.txt");

/// Synonyms.
pub static RELATED: SynonymList = SynonymList::new(include_str!("words/related.txt"));

/// Categories and their members.
pub static KINDS: SynonymList = SynonymList::new(include_str!("words/kinds.txt"));

/// Calls `each` with every word of a line that is not a stop word. The word is only valid during the call: the buffer is
/// reused.
pub fn for_each_word(line: &str, mut each: impl FnMut(&str)) {
    let mut word = String::new();
    let mut han: Option<char> = None;
    let mut run = 0_usize;
    let line = simplify(line);
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        if character.is_ascii_alphanumeric() {
            word.push(character.to_ascii_lowercase());
        } else if is_han(character) {
            emit_word(&mut word, &mut each);
            if let Some(before) = han {
                each(&String::from_iter([before, character]));
            }
            han = Some(character);
            run += 1;
            if characters.peek().is_none_or(|&next| !is_han(next)) {
                if run == 1 {
                    each(character.encode_utf8(&mut [0; 4]));
                }
                (han, run) = (None, 0);
            }
            continue;
        } else if character.is_alphanumeric() {
            word.extend(character.to_lowercase());
        } else if matches!(character, '\'' | '\u{2019}') && characters.peek().is_some_and(char::is_ascii_alphabetic) {
            // `Ana's` is Ana; `don't` is one word, and a stop word.
            let mut rest = characters.clone();
            if matches!(rest.next(), Some('s' | 'S')) && rest.next().is_none_or(|next| !next.is_alphanumeric()) {
                characters.next();
            }
            continue;
        } else {
            emit_word(&mut word, &mut each);
        }
    }
    emit_word(&mut word, &mut each);
}

fn emit_word(word: &mut String, each: &mut impl FnMut(&str)) {
    if !word.is_empty() {
        if !is_stop_word(word) {
            each(word);
        }
        word.clear();
    }
}

fn is_han(character: char) -> bool {
    matches!(character, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

/// Returns whether a word carries no topic.
pub fn is_stop_word(word: &str) -> bool {
    static WORDS: OnceLock<HashSet<&str>> = OnceLock::new();
    // The longest stop word has ten letters.
    word.len() <= 10 && WORDS.get_or_init(|| STOP.split_whitespace().collect()).contains(word)
}

/// Iterates over the verbs that orders in software work start with.
pub fn order_verbs() -> impl Iterator<Item = &'static str> {
    VERBS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(str::split_whitespace)
}

/// Returns whether a word belongs to the question rather than to its topic.
pub fn is_filler(word: &str) -> bool {
    static WORDS: OnceLock<HashSet<&str>> = OnceLock::new();
    WORDS.get_or_init(|| FILLER.split_whitespace().collect()).contains(word)
}

/// Returns whether a word asks for advice.
pub fn is_advice_word(word: &str) -> bool {
    ADVICE.split_whitespace().any(|known| known == word)
}

/// Returns the base form of an irregular form, or the word itself.
pub fn base_form(word: &str) -> &str {
    static WORDS: OnceLock<HashMap<&str, &str>> = OnceLock::new();
    let words = WORDS.get_or_init(|| {
        let groups = data_lines(FORMS).filter_map(|line| line.split_once(' '));
        groups
            .flat_map(|(base, forms)| forms.split_whitespace().map(move |form| (form, base)))
            .collect()
    });
    words.get(word).copied().unwrap_or(word)
}

/// Returns whether a stem has forms that do not start with it.
pub fn has_irregular_forms(stem_of: &str) -> bool {
    static STEMS: OnceLock<HashSet<String>> = OnceLock::new();
    let stems = STEMS.get_or_init(|| {
        let bases = data_lines(FORMS).filter_map(|line| line.split_whitespace().next());
        bases.map(|base| stem(base).into_owned()).collect()
    });
    // The stemmer maps `dying` to `die` and the like.
    stems.contains(stem_of) || matches!(stem_of, "sky" | "die" | "lie" | "tie")
}

/// Returns the stem of a base form. Both start with the same letter.
pub fn stem(base: &str) -> Cow<'_, str> {
    static STEMMER: OnceLock<Stemmer> = OnceLock::new();
    if !base.is_ascii() {
        return Cow::Borrowed(base);
    }
    STEMMER.get_or_init(|| Stemmer::create(Algorithm::English)).stem(base)
}

/// A list of synonyms. A line of the text is a group of synonyms, or categories, a colon, and their members, which are
/// synonyms of any of the categories.
pub struct SynonymList {
    text: &'static str,
    groups: OnceLock<Vec<SynonymGroup>>,
}

struct SynonymGroup {
    /// Base forms.
    words: Vec<&'static str>,
    /// Number of words, from the start, that have synonyms in the group: all, or the categories.
    kinds: usize,
    /// Index of the first word that is a synonym of them: 0, or the first member.
    things: usize,
    /// Stems of the synonyms, computed on first use.
    stems: OnceLock<Vec<Cow<'static, str>>>,
}

impl SynonymGroup {
    fn stems(&self) -> &[Cow<'static, str>] {
        let stems = || self.words[self.things..].iter().map(|word| stem(word)).collect();
        self.stems.get_or_init(stems)
    }
}

impl SynonymList {
    const fn new(text: &'static str) -> SynonymList {
        SynonymList {
            text,
            groups: OnceLock::new(),
        }
    }

    fn groups(&self) -> &[SynonymGroup] {
        self.groups.get_or_init(|| {
            let bases = |words: &'static str| words.split_whitespace().map(base_form);
            let groups = data_lines(self.text).map(|line| {
                let (kinds, things) = line.split_once(':').unwrap_or((line, ""));
                let words = bases(kinds).chain(bases(things)).collect::<Vec<_>>();
                let kinds = bases(kinds).count();
                let things = if kinds < words.len() { kinds } else { 0 };
                let stems = OnceLock::new();
                SynonymGroup {
                    words,
                    kinds,
                    things,
                    stems,
                }
            });
            groups.collect()
        })
    }

    /// Calls `each` with the index of a stem and every synonym of it. One pass over the list serves all stems; only words that
    /// start like one of them are stemmed.
    pub fn for_each_synonym(&self, stems: &[&str], mut each: impl FnMut(usize, &str)) {
        let mut by_letter = [0_u64; 128];
        for (at, stem_of) in stems.iter().enumerate().take(64) {
            if let Some(mask) = stem_of
                .bytes()
                .next()
                .and_then(|byte| by_letter.get_mut(usize::from(byte)))
            {
                *mask |= 1 << at;
            }
        }
        for group in self.groups() {
            for word in &group.words[..group.kinds] {
                let letter = word.bytes().next().map_or(0, usize::from);
                let mut like = by_letter.get(letter).copied().unwrap_or(0);
                while like != 0 {
                    let at = like.trailing_zeros() as usize;
                    like &= like - 1;
                    if word.as_bytes().starts_with(stem_prefix(stems[at])) && stem(word) == stems[at] {
                        let others = group.stems().iter().filter(|other| *other != stems[at]);
                        others.for_each(|other| each(at, other));
                    }
                }
            }
        }
    }
}

/// Returns how a base form must start to have this stem: like the stem without its last letter. `dying` has the stem `die`.
pub fn stem_prefix(stem_of: &str) -> &[u8] {
    let length = match stem_of {
        "die" | "lie" | "tie" => 1,
        _ => stem_of.len().saturating_sub(1).max(1),
    };
    &stem_of.as_bytes()[..length.min(stem_of.len())]
}

fn data_lines(data: &'static str) -> impl Iterator<Item = &'static str> {
    data.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Returns the stems of a text, in order.
pub fn text_stems(text: &str) -> Vec<String> {
    let mut stems = Vec::new();
    for_each_word(text, |word| stems.push(stem(base_form(word)).into_owned()));
    stems
}

/// Returns the words of a text that carry meaning, each once and sorted, with the usual endings cut; a run of characters
/// beyond ASCII gives its pairs. For comparing statements: rougher than [`text_stems`], and stable.
pub fn content_words(text: &str) -> Vec<String> {
    const STOP: &[&str] = &[
        "a", "an", "and", "are", "as", "at", "be", "but", "by", "can", "could", "do", "for", "from", "i", "if", "in",
        "is", "it", "its", "let", "me", "my", "not", "of", "on", "or", "our", "please", "should", "so", "that", "the",
        "then", "there", "this", "to", "us", "was", "we", "will", "with", "would", "you", "your", "also", "just",
        "when", "what",
    ];
    let mut words = Vec::new();
    for word in text
        .split(|sign: char| !sign.is_alphanumeric() && sign != '_')
        .filter(|word| !word.is_empty())
    {
        let low = word.to_lowercase();
        if low.is_ascii() {
            if !STOP.contains(&low.as_str()) {
                words.push(cut_ending(&low).to_owned());
            }
            continue;
        }
        let signs = low.chars().collect::<Vec<_>>();
        words.extend(signs.windows(2).map(|pair| pair.iter().collect::<String>()));
        if signs.len() == 1 {
            words.push(low);
        }
    }
    words.sort_unstable();
    words.dedup();
    words
}

/// Cuts the usual endings: enough to make forms of one word equal.
fn cut_ending(word: &str) -> &str {
    for ending in ["ing", "ies", "ed", "es", "s"] {
        if let Some(stem) = word.strip_suffix(ending)
            && stem.len() >= 3
        {
            return stem;
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_stems() {
        assert_eq!(
            text_stems("Ana's commits don't break the builds"),
            ["ana", "commit", "break", "build"]
        );
        assert_eq!(text_stems("we went, they go"), ["go", "go"]);
        assert_eq!(text_stems("偏好简短"), ["偏好", "好简", "简短"]);
        assert_eq!(text_stems("偏好簡短"), ["偏好", "好简", "简短"]);
        assert_eq!(text_stems("用 git"), ["用", "git"]);
    }

    fn synonyms_of(list: &SynonymList, word: &str) -> Vec<String> {
        let mut found = Vec::new();
        list.for_each_synonym(&["xyzzy", &stem(word)], |at, other| {
            assert_eq!(at, 1);
            found.push(other.to_owned());
        });
        found
    }

    #[test]
    fn synonyms_are_found() {
        let list = SynonymList::new("# no words\n\nbig large\nlarge: whale went\n");
        assert_eq!(synonyms_of(&list, "big"), ["larg"]);
        // Members are synonyms of their category, not the reverse.
        assert_eq!(synonyms_of(&list, "large"), ["big", "whale", "go"]);
        assert!(synonyms_of(&list, "whale").is_empty());
        assert!(synonyms_of(&list, "lar").is_empty());
        assert!(synonyms_of(&RELATED, "repo").contains(&stem("repository").into_owned()));
    }

    #[test]
    fn every_list_parses() {
        for list in [&RELATED, &KINDS] {
            for line in data_lines(list.text) {
                let is_plain = |word: &str| {
                    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
                    word.bytes().all(is_part) && word.as_bytes().starts_with(stem_prefix(&stem(word)))
                };
                let (kinds, things) = line.split_once(':').unwrap_or(("", line));
                let mut words = kinds.split_whitespace().chain(things.split_whitespace());
                assert!(words.all(is_plain), "{line}");
                assert!(things.split_whitespace().count() > 1, "{line}");
                assert_eq!(kinds.is_empty(), !line.contains(':'), "{line}");
            }
        }
    }

    #[test]
    fn a_stem_keeps_the_first_letter() {
        for word in ["dying", "lying", "skies", "news", "generously", "yellow", "early"] {
            let stem = stem(word);
            assert_eq!(stem.as_bytes()[0], word.as_bytes()[0]);
            assert!(word.as_bytes().starts_with(stem_prefix(&stem)), "{word} {stem}");
        }
    }

    #[test]
    fn forms_of_one_word_are_equal() {
        assert_eq!(content_words("testing the tests"), content_words("Tested a test"));
        assert_eq!(content_words("写测试"), ["写测", "测试"]);
    }
}
