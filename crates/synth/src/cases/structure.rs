//! Cases: branches, missing parents, and boundaries.

use super::{CaseFolder, CaseLog, PROJECT, ask, lookup_block, project_file, run, say, turn, write_line};
use crate::drive::{attachment, local_command_output};
use crate::json::Uuid;
use crate::session::{ResultOrder, replace_bytes};
use crate::tools;
use crate::tools::text_block;
use crate::words::{SynthText, TextFlavor};
use std::io;

pub(super) fn rewind(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.29");
    turn(&mut log, "Paint the bridge.", "Which colour?")?;
    let here = log.bookmark();
    ask(&mut log, "Red.")?;
    run(&mut log, 300)?;
    say(&mut log, "It is red now.")?;
    log.rewind(here);
    turn(&mut log, "Blue, not red.", "It is blue now.")?;
    folder.save(log)?;
    Ok(())
}

pub(super) fn two_leaves(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.114");
    turn(&mut log, "Plan the garden.", "Here are two plans.")?;
    let here = log.bookmark();
    turn(&mut log, "Take the first.", "The first it is.")?;
    turn(&mut log, "Add a hedge.", "A hedge is added.")?;
    log.rewind(here);
    turn(&mut log, "Take the second.", "The second it is.")?;
    turn(&mut log, "Add a pond.", "A pond is added.")?;
    folder.save(log)?;
    Ok(())
}

pub(super) fn parallel_calls(folder: &mut CaseFolder) -> io::Result<()> {
    for (version, order) in [
        ("2.0.76", ResultOrder::CallsFirst),
        ("2.1.29", ResultOrder::Interleaved),
        ("2.1.220", ResultOrder::CallsFirst),
    ] {
        let mut log = folder.log(version);
        ask(&mut log, "Look everywhere at once.")?;
        let words = text_block(&mut log, &SynthText::of("Three looks at once."));
        let file = project_file(&mut log);
        let calls = [
            words,
            tools::bash(&mut log, 300),
            tools::grep(&mut log, 200),
            tools::read(&mut log, &file, 1, 20),
        ];
        log.respond(&calls, order)?;
        say(&mut log, "Nothing anywhere.")?;
        folder.save(log)?;
    }
    Ok(())
}

pub(super) fn missing_parent(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.29");
    turn(&mut log, "First thing.", "First done.")?;
    log.leaf = Some(Uuid::new(&mut folder.rng));
    turn(&mut log, "Second thing.", "Second done.")?;
    folder.save(log)?;
    Ok(())
}

pub(super) fn parent_cycle(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.29");
    let placeholder = Uuid::new(&mut folder.rng);
    log.leaf = Some(placeholder);
    turn(&mut log, "Which came first?", "Each of us came after the other.")?;
    let last = log.leaf.unwrap_or(placeholder);
    turn(&mut log, "And then?", "Then it went on.")?;
    let path = format!("{PROJECT}/{}.jsonl", log.identity.session_id);
    folder.save_at(&path, log, |bytes| {
        replace_bytes(&bytes, placeholder.as_str().as_bytes(), last.as_str().as_bytes())
    })?;
    Ok(())
}

pub(super) fn clock_backwards(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.29");
    turn(&mut log, "What time is it?", "Late.")?;
    log.now -= 7_200_000;
    turn(&mut log, "And now?", "Earlier.")?;
    log.now += 14_400_000;
    turn(&mut log, "And now?", "Later again.")?;
    folder.save(log)?;
    Ok(())
}

pub(super) fn unknown_kinds(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.226");
    let id = log.identity.session_id.clone();
    log.write_plain(
        "weather-report",
        &format!("{{\"type\":\"weather-report\",\"sky\":\"clear\",\"sessionId\":\"{id}\"}}"),
    )?;
    ask(&mut log, "What is new?")?;
    log.other("hologram", ",\"frames\":[[1,2,[3,[4]]],{}],\"brightness\":0.5")?;
    log.attachment("{\"type\":\"scent\",\"notes\":[\"pine\",\"rain\"]}", 0)?;
    let mut response = log.begin_response(60);
    let block = b"{\"type\":\"riddle\",\"riddle\":\"What has roots that nobody sees?\",\"answers\":[]}";
    write_line(&mut log, &mut response, block, 60, Some("riddle_posed"))?;
    log.end_response(&response, 60);
    log.user(
        log.leaf,
        b"[{\"type\":\"melody\",\"notes\":\"c e g\"}]",
        ",\"mood\":\"calm\"",
        b",\"echo\":null",
    )?;
    log.system(",\"subtype\":\"tide_change\",\"height\":3", ",\"level\":\"info\"")?;
    say(&mut log, "Everything.")?;
    folder.save(log)?;
    Ok(())
}

/// Fills the window to just below the threshold and lets the next result pass it.
fn fill_up(log: &mut CaseLog) -> io::Result<()> {
    log.context.size = log.threshold - 3_000;
    ask(log, "Go on with the long list.")?;
    let read = lookup_block(log, TextFlavor::Go, 16_000);
    log.respond(&[read], ResultOrder::CallsFirst)
}

pub(super) fn boundary_auto(folder: &mut CaseFolder) -> io::Result<()> {
    for version in ["2.1.7", "2.1.29"] {
        let mut log = folder.log(version);
        fill_up(&mut log)?;
        log.compact_if_due()?;
        say(&mut log, "The list goes on after the summary.")?;
        turn(&mut log, "Good.", "There are nine left.")?;
        folder.save(log)?;
    }
    Ok(())
}

pub(super) fn boundary_manual(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    log.context.size = 88_000;
    turn(&mut log, "We are done with this part.", "Then it can be condensed.")?;
    let before = log.checked_size();
    log.compact("manual", before)?;
    local_command_output(&mut log, "/compact", "Compacted")?;
    turn(&mut log, "Next part.", "Ready.")?;
    folder.save(log)?;
    Ok(())
}

pub(super) fn boundary_micro(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.17");
    log.context.size = 68_000;
    ask(&mut log, "Read all the long notes.")?;
    for _ in 0..6 {
        let read = lookup_block(&mut log, TextFlavor::English, 42_000);
        log.respond(&[read], ResultOrder::CallsFirst)?;
        log.compact_if_due()?;
    }
    say(&mut log, "Read, and mostly forgotten.")?;
    folder.save(log)?;
    Ok(())
}

pub(super) fn preserved_segment(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.226");
    log.hour_cache = true;
    log.context.size = 164_000;
    turn(&mut log, "One more file.", "Which one?")?;
    ask(&mut log, "The large one.")?;
    let words = text_block(&mut log, &SynthText::of("I will read it."));
    let read = lookup_block(&mut log, TextFlavor::Rust, 16_000);
    log.compact_preserving(&[words, read])?;
    for kind in ["compact_file_reference", "file", "invoked_skills"] {
        attachment(&mut log, kind)?;
    }
    say(&mut log, "It holds forty shelves.")?;
    folder.save(log)?;
    Ok(())
}

pub(super) fn boundary_lost_parent(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.29");
    fill_up(&mut log)?;
    let before = log.checked_size() + 1_900;
    let lost = Uuid::new(&mut folder.rng);
    let summary = Uuid::new(&mut folder.rng);
    log.boundary("auto", before, Some(lost), summary, &[])?;
    log.summary(summary)?;
    say(&mut log, "The last result was never written.")?;
    folder.save(log)?;
    Ok(())
}
