//! Compares offline summaries with the ones that a model wrote, at every recorded compaction of some logs.
//!
//! ```text
//! cargo run --release --example summaryeval -- PATH... [--show]
//! ```
//!
//! Both texts are about the same part of the conversation and have the same budget: the size of the recorded one. What the
//! conversation needed afterwards is known, so each is scored by the share that it carries: files that were edited later,
//! tasks that were open, corrections of the user, names in code and of files that were used later. The last lines say how
//! the full-size texts keep their budgets over all sessions. `--show` prints a line a compaction and what was missed.

mod comparison;

use anyhow::{Result, bail};
use backcast::run::{ReadOptions, Run};
use comparison::{SummaryComparison, compare_summaries, mean_coverage};
use notes::conversation::Conversation;
use notes::coverage::{NEED_KINDS, NeedCoverage, NeedKind};
use notes::offline::digest::Digest;
use notes::offline::{OfflineBackend, write_notes};
use notes::template::NotesTemplate;
use notes::{NotesLimits as NoteLimits, SummaryRequest, SummaryVariant, TextBackend, size};
use replay::policy::Policy;
use std::path::PathBuf;
use transcript::discover::discover;

fn main() -> Result<()> {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let is_shown = arguments.iter().any(|argument| argument == "--show");
    let paths = arguments
        .iter()
        .filter(|argument| *argument != "--show")
        .map(PathBuf::from)
        .collect::<Vec<_>>();
    if paths.is_empty() {
        bail!("usage: summaryeval PATH... [--show]");
    }
    let found = discover(&paths, false)?;
    let run = Run::read(&found.logs, &ReadOptions::default());
    let (sessions, _) = run.map_sessions(|view| {
        if view.chains().is_empty() {
            return Scored::default();
        }
        let (conversation, _) = view.read_conversation(0);
        score(view.id(), &conversation)
    });
    report(&sessions, is_shown);
    Ok(())
}

/// What one session came to.
#[derive(Default)]
struct Scored {
    session: String,
    boundaries: Vec<SummaryComparison>,
    notes: Vec<(u64, u64)>,
    summaries: Vec<u64>,
    prompts: (u64, u64),
}

fn ask<'m>(conversation: &'m Conversation, range: std::ops::Range<usize>, budget: u64) -> SummaryRequest<'m> {
    SummaryRequest {
        material: conversation.to_material(range),
        variant: SummaryVariant::Whole,
        instructions: "",
        budget,
        is_automatic: true,
    }
}

fn score(id: &str, conversation: &Conversation) -> Scored {
    let policy = Policy::default();
    let messages = &conversation.messages;
    let mut scored = Scored {
        session: id.to_owned(),
        boundaries: compare_summaries(conversation, &OfflineBackend),
        ..Scored::default()
    };
    if messages.is_empty() {
        return scored;
    }
    if let Ok(text) = OfflineBackend.summary(&ask(conversation, 0..messages.len(), policy.max_output)) {
        let mut digest = Digest::new(&conversation.root);
        messages.iter().for_each(|message| digest.push(message));
        let whole = digest
            .prompts
            .iter()
            .filter(|prompt| text.contains(&prompt.text))
            .count();
        scored.prompts = (whole as u64, digest.prompts.len() as u64);
        scored.summaries.push(size::tokens(&text));
        let limits = NoteLimits {
            section: policy.notes_section,
            total: policy.notes_total,
        };
        let template = NotesTemplate::built_in();
        let notes = write_notes(&digest, "", &template, limits).text;
        assert!(
            template.has_same_sections(&notes),
            "{id}: headings or descriptions were changed"
        );
        let parsed = NotesTemplate::parse(&notes);
        let largest = parsed
            .sections
            .iter()
            .map(|section| size::tokens(&format!("{}\n{}\n\n{}", section.heading, section.about, section.body)));
        scored.notes.push((size::tokens(&notes), largest.max().unwrap_or(0)));
    }
    scored
}

fn report(sessions: &[Scored], is_shown: bool) {
    let boundaries = sessions
        .iter()
        .flat_map(|session| &session.boundaries)
        .collect::<Vec<_>>();
    let percent = |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{:.1} %", 100.0 * share));
    for session in sessions.iter().filter(|_| is_shown) {
        for boundary in &session.boundaries {
            let shares = boundary
                .scores
                .map(|both| format!("{} / {}", percent(both[0].share()), percent(both[1].share())));
            println!(
                "{} {} {} {}",
                session.session,
                boundary.budget,
                boundary.size,
                shares.join("  ")
            );
            for need in [NeedKind::Files, NeedKind::Tasks, NeedKind::Corrections] {
                for missed in &boundary.missed[need as usize] {
                    println!("    missed {}: {}", need.name(), missed.replace('\n', " "));
                }
            }
        }
    }
    println!("{} compactions with a recorded summary", boundaries.len());
    println!(
        "{:<12} {:>8} {:>10} {:>10} {:>8}",
        "needed", "count", "recorded", "offline", "ratio"
    );
    for need in NEED_KINDS {
        let mut both = [NeedCoverage::default(); 2];
        for boundary in &boundaries {
            for (sum, one) in std::iter::zip(&mut both, boundary.scores[need as usize]) {
                sum.add(one);
            }
        }
        let [recorded, offline] = both.map(|carried| carried.share());
        let ratio = recorded.zip(offline).map(|(recorded, offline)| offline / recorded);
        println!(
            "{:<12} {:>8} {:>10} {:>10} {:>8}",
            need.name(),
            both[0].needed,
            percent(recorded),
            percent(offline),
            percent(ratio)
        );
    }
    let means = mean_coverage(boundaries.iter().copied());
    println!(
        "{:<12} {:>8} {:>10} {:>10} {:>8}",
        "all",
        "",
        percent(means.map(|means| means[0])),
        percent(means.map(|means| means[1])),
        percent(means.map(|means| means[1] / means[0]))
    );
    let over = boundaries
        .iter()
        .filter(|boundary| boundary.size > boundary.budget)
        .count();
    println!("over the budget of the recorded one: {over}");
    let policy = Policy::default();
    let notes = sessions.iter().flat_map(|session| &session.notes).collect::<Vec<_>>();
    let long = notes
        .iter()
        .filter(|(all, section)| *all > policy.notes_total || *section > policy.notes_section)
        .count();
    println!(
        "notes of {} sessions: largest {} tokens, largest section {}, {long} over a limit",
        notes.len(),
        notes.iter().map(|notes| notes.0).max().unwrap_or(0),
        notes.iter().map(|notes| notes.1).max().unwrap_or(0)
    );
    let summaries = sessions
        .iter()
        .flat_map(|session| &session.summaries)
        .collect::<Vec<_>>();
    let long = summaries.iter().filter(|size| ***size > policy.max_output).count();
    let prompts = sessions
        .iter()
        .fold((0, 0), |sum, one| (sum.0 + one.prompts.0, sum.1 + one.prompts.1));
    println!(
        "summaries of {} whole sessions: largest {} tokens, {long} over the budget; {} of {} user messages in full",
        summaries.len(),
        summaries.into_iter().max().unwrap_or(&0),
        prompts.0,
        prompts.1
    );
}
