//! Ranking of whole queries.

use super::index::is_typo;
use super::scoring::closest_distance;
use super::*;

fn index() -> RecallIndex {
    let mut index = RecallIndex::default();
    index.add(
        "Deploys go out on Tuesdays\nWhen planning a release",
        "The release train leaves on Tuesday morning.",
    );
    index.add(
        "Database in tests\nWhen writing tests",
        "Integration tests use the real Postgres, never mocks.",
    );
    index.add(
        "Terse answers\nWhen answering",
        "No summary at the end of a response; the diff is enough.",
    );
    index.add("缩进风格\n写代码时", "缩进用四个空格，不用制表符。");
    index
}

fn best(query: &str) -> Option<usize> {
    index()
        .find_matches(query, &RecallWeights::default())
        .first()
        .map(|hit| hit.document)
}

#[test]
fn the_memory_that_fits_comes_first() {
    assert_eq!(best("which day do we release?"), Some(0));
    assert_eq!(best("should the test mock the database"), Some(1));
    assert_eq!(best("end your responses without a summary"), Some(2));
    assert_eq!(best("代码缩进用什么"), Some(3));
}

#[test]
fn nothing_fits_is_an_answer() {
    for query in [
        "holiday photos from Lisbon",
        "kubernetes ingress certificates",
        "",
        "的",
    ] {
        assert_eq!(best(query), None, "{query}");
    }
    assert!(
        RecallIndex::default()
            .find_matches("anything at all", &RecallWeights::default())
            .is_empty()
    );
}

#[test]
fn other_words_for_the_same_are_found() {
    let mut index = index();
    index.add(
        "Where the repository lives",
        "The repository is on the team's own forge.",
    );
    let hits = index.find_matches(
        "which repo host",
        &RecallWeights {
            least: 0.0,
            ..RecallWeights::default()
        },
    );
    assert_eq!(hits.first().map(|hit| hit.document), Some(4));
}

#[test]
fn members_are_found_by_their_category_and_words_despite_a_typo() {
    let mut index = index();
    index.add("Music at lunch", "Kim plays the guitar on Fridays.");
    let first = |query: &str| {
        index
            .find_matches(query, &RecallWeights::default())
            .first()
            .map(|hit| hit.document)
    };
    assert_eq!(first("which instrument does somebody play"), Some(4));
    assert_eq!(first("should tests mock the databse"), Some(1));
}

#[test]
fn words_are_found_by_how_they_start() {
    let mut index = RecallIndex::default();
    index.add("", "q dying dine 5g 偏好 über");
    for (start, expected) in [
        ("d", &["dying", "dine"][..]),
        ("di", &["dine"]),
        ("q", &["q"]),
        ("5g", &["5g"]),
        ("偏", &["偏好"]),
        ("ü", &["über"]),
        ("x", &[]),
        ("dines", &[]),
    ] {
        let found = index
            .starting_with(start.as_bytes())
            .map(|number| &*index.vocabulary[number]);
        let mut found = found.collect::<Vec<_>>();
        found.sort_unstable_by_key(|word| expected.iter().position(|known| known == word));
        assert_eq!(found, expected, "{start}");
    }
}

#[test]
fn advice_is_about_the_rarest_word() {
    let mut index = RecallIndex::default();
    for at in 0..9 {
        index.add(
            "",
            &format!("Guests of day {at}: coffee first, then a recipe for bread"),
        );
    }
    for at in 9..40 {
        index.add(
            "",
            &format!("Work of day {at}: paint the fence, mow the lawn, mend a tap"),
        );
    }
    index.add("", "Weekly shopping: oats, berries, and creamer made of almond milk");
    let best = |query: &str| {
        let hits = index.find_matches(query, &RecallWeights::default());
        hits.first().map(|hit| hit.document)
    };
    assert_eq!(best("Where is the coffee creamer of that recipe?"), Some(0));
    assert_eq!(best("A new coffee creamer recipe, any recommendations?"), Some(40));
}

#[test]
fn a_time_in_the_query_finds_what_is_dated_in_it() {
    let mut index = RecallIndex::default();
    index.add("", "The review went well.\n12 April, 2023");
    index.add("", "The review went well.\n8 May, 2023");
    index.add("", "The review went well.\n2023-06-02");
    let first = |query: &str| {
        index
            .find_matches(query, &RecallWeights::default())
            .first()
            .map(|hit| hit.document)
    };
    assert_eq!(first("how did the review go on May 3, 2023?"), Some(1));
    assert_eq!(first("how did the review go in June 2023?"), Some(2));
    assert_eq!(first("how did the review go?"), Some(0));
}

#[test]
fn the_list_ends_at_half_of_the_best_score() {
    let mut index = RecallIndex::default();
    for number in 0..100 {
        index.add(
            "",
            &format!("The build server runs all tests at night, in room {}.", number % 10),
        );
    }
    index.add("Hamster", "The hamster is fed by the night shift.");
    // A word that no other memory has decides; a word that is missing everywhere refuses nothing.
    let hits = index.find_matches("who feeds the hamster near the zeppelin", &RecallWeights::default());
    assert_eq!(hits.iter().map(|hit| hit.document).collect::<Vec<_>>(), [100]);
    let all = RecallWeights {
        least: 0.0,
        ..RecallWeights::default()
    };
    let query = "the hamster and the build server";
    assert!(index.find_matches(query, &all).len() > index.find_matches(query, &RecallWeights::default()).len());
    assert_eq!(index.find_matches("hamster", &RecallWeights::default()).len(), 1);
}

#[test]
fn advice_comes_from_what_a_memory_is_about() {
    let mut index = RecallIndex::default();
    index.add(
        "",
        "My sister called at noon, and the roof leaks again.\nIt was after the evening walk.",
    );
    index.add(
        "",
        "A walk is what I like best of a long and quiet evening.\nNo music, no phone.",
    );
    let best = |query: &str| {
        let hits = index.find_matches(query, &RecallWeights::default());
        hits.first().map(|hit| hit.document)
    };
    assert_eq!(best("Where did the evening walk go?"), Some(0));
    assert_eq!(best("Any ideas for an evening walk?"), Some(1));
}

#[test]
fn a_typo_is_one_letter() {
    for (one, other) in [
        ("festival", "fesetival"),
        ("form", "from"),
        ("color", "colour"),
        ("cat", "cut"),
    ] {
        assert!(is_typo(one, other) && is_typo(other, one), "{one} {other}");
    }
    for (one, other) in [("same", "same"), ("house", "mouth"), ("abcd", "badc"), ("a", "abc")] {
        assert!(!is_typo(one, other), "{one} {other}");
    }
}

#[test]
fn distances_are_the_smallest() {
    assert_eq!(closest_distance(&[1, 10, 30], &[14, 28]), Some(2));
    assert_eq!(closest_distance(&[], &[1]), None);
}
