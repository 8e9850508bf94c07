//! Text as words that can be compared: lower case, without stop words, irregular forms by their base, Chinese as pairs of
//! characters; stems where they are asked for. Pure.

use rust_stemmers::{Algorithm, Stemmer};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

/// Words that say nothing about what a text is about.
const STOP: &str = "a about above after again against all also am an and any are as at be because been before being below \
    between both but by can cannot could did do does doing down during each few for from further get got had has have \
    having he her here hers herself him himself his how i if in into is it its itself just lets me more most my myself no \
    nor not now of off on once only or other our ours ourselves out over own same she should so some such than that the \
    their theirs them themselves then there these they this those through to too under until up very was we were what \
    when where which while who whom why will with would you your yours yourself yourselves s t m ve ll d re im ive id ill \
    youre youve thats arent cant couldnt didnt doesnt dont hadnt hasnt havent isnt wasnt werent wont wouldnt";

/// Words of asking rather than of what is asked for: they count, but less.
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

/// Words of a request for advice.
const ADVICE: &str = "advice advise idea ideas recommend recommendation recommendations suggest suggestion suggestions tip tips 建议 推荐";

/// Irregular forms and their base.
const FORMS: &str = include_str!("recall/forms.txt");

/// Words that stand for each other.
const RELATED: &str = include_str!("recall/related.txt");

/// Kinds of things, and things of that kind.
const KINDS: &str = include_str!("recall/kinds.txt");

/// Calls `each` with every word of a line that is not a stop word. The word is borrowed from a buffer that is used again.
pub fn each_word(line: &str, mut each: impl FnMut(&str)) {
    let mut word = String::new();
    let mut han: Option<char> = None;
    let mut run = 0_usize;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        if character.is_ascii_alphanumeric() {
            word.push(character.to_ascii_lowercase());
        } else if is_han(character) {
            give(&mut word, &mut each);
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
            give(&mut word, &mut each);
        }
    }
    give(&mut word, &mut each);
}

fn give(word: &mut String, each: &mut impl FnMut(&str)) {
    if !word.is_empty() {
        if !is_stop(word) {
            each(word);
        }
        word.clear();
    }
}

fn is_han(character: char) -> bool {
    matches!(character, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

/// Whether a word says nothing about what a text is about.
pub fn is_stop(word: &str) -> bool {
    static WORDS: OnceLock<HashSet<&str>> = OnceLock::new();
    // The longest stop word has ten letters.
    word.len() <= 10 && WORDS.get_or_init(|| STOP.split_whitespace().collect()).contains(word)
}

/// Whether a word belongs to the asking.
pub fn is_filler(word: &str) -> bool {
    static WORDS: OnceLock<HashSet<&str>> = OnceLock::new();
    WORDS.get_or_init(|| FILLER.split_whitespace().collect()).contains(word)
}

/// Whether a word asks for advice.
pub fn is_of_advice(word: &str) -> bool {
    ADVICE.split_whitespace().any(|known| known == word)
}

/// The base of an irregular form, or the word itself.
pub fn base(word: &str) -> &str {
    static WORDS: OnceLock<HashMap<&str, &str>> = OnceLock::new();
    let words = WORDS.get_or_init(|| {
        let groups = lines(FORMS).filter_map(|line| line.split_once(' '));
        groups
            .flat_map(|(base, forms)| forms.split_whitespace().map(move |form| (form, base)))
            .collect()
    });
    words.get(word).copied().unwrap_or(word)
}

/// Whether a stem has forms that do not look like it.
pub fn has_irregular_forms(stem_of: &str) -> bool {
    static STEMS: OnceLock<HashSet<String>> = OnceLock::new();
    let stems = STEMS.get_or_init(|| {
        let bases = lines(FORMS).filter_map(|line| line.split_whitespace().next());
        bases.map(|base| stem(base).into_owned()).collect()
    });
    // The last are the stemmer's own.
    stems.contains(stem_of) || matches!(stem_of, "sky" | "die" | "lie" | "tie")
}

/// The stem of a base form. It starts with the letter that the word starts with.
pub fn stem(base: &str) -> Cow<'_, str> {
    static STEMMER: OnceLock<Stemmer> = OnceLock::new();
    if !base.is_ascii() {
        return Cow::Borrowed(base);
    }
    STEMMER.get_or_init(|| Stemmer::create(Algorithm::English)).stem(base)
}

/// Stems of words that stand for the one with this stem.
pub fn related(stem_of: &str) -> &'static [String] {
    static GROUPS: OnceLock<HashMap<String, Vec<String>>> = OnceLock::new();
    let groups = GROUPS.get_or_init(|| {
        let mut groups = HashMap::<String, Vec<String>>::new();
        for line in lines(RELATED) {
            let stems = line
                .split_whitespace()
                .map(|word| stem(base(word)).into_owned())
                .collect::<Vec<_>>();
            for one in &stems {
                let others = groups.entry(one.clone()).or_default();
                for other in &stems {
                    if other != one && !others.contains(other) {
                        others.push(other.clone());
                    }
                }
            }
        }
        groups
    });
    groups.get(stem_of).map_or(&[], Vec::as_slice)
}

/// Stems of things that are of the kind with this stem.
pub fn members(stem_of: &str) -> &'static [String] {
    static GROUPS: OnceLock<HashMap<String, Vec<String>>> = OnceLock::new();
    let groups = GROUPS.get_or_init(|| {
        let stems = |words: &str| {
            words
                .split_whitespace()
                .map(|word| stem(base(word)).into_owned())
                .collect::<Vec<_>>()
        };
        let mut groups = HashMap::<String, Vec<String>>::new();
        for (kinds, things) in lines(KINDS).filter_map(|line| line.split_once(':')) {
            let things = stems(things);
            for kind in stems(kinds) {
                let known = groups.entry(kind.clone()).or_default();
                for thing in &things {
                    if *thing != kind && !known.contains(thing) {
                        known.push(thing.clone());
                    }
                }
            }
        }
        groups
    });
    groups.get(stem_of).map_or(&[], Vec::as_slice)
}

fn lines(data: &'static str) -> impl Iterator<Item = &'static str> {
    data.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The stems of a text, in order.
pub fn stems(text: &str) -> Vec<String> {
    let mut stems = Vec::new();
    each_word(text, |word| stems.push(stem(base(word)).into_owned()));
    stems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_brought_to_their_stems() {
        assert_eq!(
            stems("Ana's commits don't break the builds"),
            ["ana", "commit", "break", "build"]
        );
        assert_eq!(stems("we went, they go"), ["go", "go"]);
        assert_eq!(stems("偏好简短"), ["偏好", "好简", "简短"]);
        assert_eq!(stems("用 git"), ["用", "git"]);
    }

    #[test]
    fn other_words_for_the_same_are_known() {
        assert!(related(&stem("repo")).contains(&stem("repository").into_owned()));
        assert!(related("xyzzy").is_empty());
    }

    #[test]
    fn a_stem_keeps_the_first_letter() {
        for word in ["dying", "lying", "skies", "news", "generously", "yellow", "early"] {
            assert_eq!(stem(word).as_bytes()[0], word.as_bytes()[0]);
        }
    }
}
