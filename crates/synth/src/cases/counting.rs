//! Cases: ordinary sessions, and responses that must be counted once with the right usage.

use super::{CaseFolder, ask, end_turn, project_file, run, say, turn, write_line};
use crate::client::CLIENTS;
use crate::drive::SessionDriver;
use crate::json::api_id;
use crate::session::{BilledUsage, InnerResponse, ResultOrder, SessionPrefix};
use crate::tools;
use crate::tools::text_block;
use crate::words::SynthText;
use std::io;

pub(super) fn plain(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    ask(&mut log, "Why does the basket count come out one too high?")?;
    let file = project_file(&mut log);
    let read = tools::read(&mut log, &file, 1, 60);
    log.respond(&[read], ResultOrder::CallsFirst)?;
    run(&mut log, 900)?;
    say(
        &mut log,
        "The loop starts at zero and ends at `len`, so the last basket is counted twice.",
    )?;
    end_turn(&mut log)?;
    turn(&mut log, "Thanks. Anything else?", "No: the other loops are fine.")?;
    folder.save(log)?;
    Ok(())
}

pub(super) fn lasting_words(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    turn(
        &mut log,
        "I'm a data engineer, new to Rust. Why does the harvest report come out empty?",
        "The reader skips the header and then the only row.",
    )?;
    turn(
        &mut log,
        "Fix it. And from now on always run the integration tests before you say that something works, \
         because the unit tests mock the database.",
        "Fixed, and the integration tests pass.",
    )?;
    turn(&mut log, "Never push to main without asking me first.", "Understood.")?;
    turn(
        &mut log,
        "We freeze merges on 2026-09-01 because the mobile team cuts a release branch.",
        "Noted.",
    )?;
    folder.save(log)?;
    let mut log = folder.log("2.1.226");
    turn(
        &mut log,
        "Remember that bugs of the importer are tracked in the Linear project HARVEST.",
        "I will look there.",
    )?;
    turn(&mut log, "Please never push to main without asking me first!", "Right.")?;
    turn(
        &mut log,
        "Remember that the staging password is hunter2-Kx9vQ7mZ.",
        "I would rather not keep that.",
    )?;
    turn(&mut log, "Rename `fruit` to `crop` in this file.", "Renamed.")?;
    folder.save(log)?;
    Ok(())
}

pub(super) fn every_version(folder: &mut CaseFolder) -> io::Result<()> {
    for client in CLIENTS {
        let mut log = folder.log(client.version);
        log.hour_cache = client.may_write_for_an_hour();
        ask(&mut log, "Sort the ladders by height.")?;
        run(&mut log, 300)?;
        let list = tools::todos(&mut log);
        let grep = tools::grep(&mut log, 120);
        log.respond(&[list, grep], ResultOrder::CallsFirst)?;
        say(&mut log, "Sorted. The tallest one comes first now.")?;
        folder.save(log)?;
    }
    Ok(())
}

pub(super) fn long_session(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.29");
    log.hour_cache = true;
    SessionDriver::new(&mut log, 180_000)
        .with_lines_up_to(1_500)
        .run(0, |_| unreachable!("no sub-agents were asked for"))?;
    folder.save(log)?;
    Ok(())
}

pub(super) fn streaming_partials(folder: &mut CaseFolder) -> io::Result<()> {
    for version in ["2.1.17", "2.1.59"] {
        let mut log = folder.log(version);
        ask(&mut log, "Measure the narrow ladder.")?;
        run(&mut log, 400)?;
        run(&mut log, 200)?;
        say(&mut log, "It is three rungs short.")?;
        folder.save(log)?;
    }
    // The output grows from line to line, and the largest is not on the last line.
    let mut log = folder.log("2.0.76");
    ask(&mut log, "And the wide one?")?;
    let mut response = log.begin_response(412);
    for (output, text) in [(3, "Let me look."), (412, "It is fine."), (7, "Really.")] {
        let block = text_block(&mut log, &SynthText::of(text));
        write_line(&mut log, &mut response, &block.json, output, None)?;
    }
    log.end_response(&response, 7);
    folder.save(log)?;
    Ok(())
}

pub(super) fn missing_request_id(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("1.0.43");
    log.request_ids = false;
    ask(&mut log, "Label the shelves.")?;
    run(&mut log, 300)?;
    say(&mut log, "All shelves have labels.")?;
    folder.save(log)?;
    Ok(())
}

/// Writes a session of two turns and returns its lines, for another session to repeat.
fn original(folder: &mut CaseFolder) -> io::Result<Option<SessionPrefix>> {
    let mut log = folder.log("2.1.29");
    log.keep_prefix();
    ask(&mut log, "Count the lanterns.")?;
    run(&mut log, 500)?;
    say(&mut log, "There are eleven.")?;
    end_turn(&mut log)?;
    turn(&mut log, "And the broken ones?", "Two of them are broken.")?;
    log.finish_turn();
    folder.save(log)
}

pub(super) fn resumed_copy(folder: &mut CaseFolder) -> io::Result<()> {
    let prefix = original(folder)?;
    resume(folder, prefix.as_ref(), "Then mend them.", "Both are mended.")
}

pub(super) fn forked_copies(folder: &mut CaseFolder) -> io::Result<()> {
    let prefix = original(folder)?;
    resume(folder, prefix.as_ref(), "Mend them.", "Both are mended.")?;
    resume(folder, prefix.as_ref(), "Throw them away.", "They are gone.")
}

/// Writes a session that repeats the lines of another one and adds a turn.
fn resume(folder: &mut CaseFolder, prefix: Option<&SessionPrefix>, prompt: &str, answer: &str) -> io::Result<()> {
    let mut log = folder.log("2.1.29");
    if let Some(prefix) = prefix {
        log.resume(prefix)?;
    }
    turn(&mut log, prompt, answer)?;
    folder.save(log)?;
    Ok(())
}

pub(super) fn one_hour_writes(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    log.hour_cache = true;
    turn(&mut log, "Open the window.", "It is open.")?;
    ask(&mut log, "Close it again.")?;
    let mut response = log.begin_response(120);
    response.usage.write_5m = 700;
    response.usage.write_1h = 1_300;
    let block = text_block(&mut log, &SynthText::of("It is closed."));
    log.respond_with(&mut response, &[block], ResultOrder::CallsFirst)?;
    // Half an hour later the one-hour cache is still warm.
    log.now += 1_800_000;
    turn(&mut log, "And open?", "Open.")?;
    folder.save(log)?;
    Ok(())
}

pub(super) fn several_iterations(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    log.hour_cache = true;
    log.context.size = 112_000;
    ask(&mut log, "What do the docs say about pruning?")?;
    let words = text_block(&mut log, &SynthText::of("I will search for it."));
    let fetch = tools::fetch(&mut log, 600);
    log.respond_twice(&[words, fetch], ResultOrder::CallsFirst)?;
    say(&mut log, "Prune late in winter.")?;
    folder.save(log)?;
    Ok(())
}

/// In the first response another model gave advice: its tokens are not in the sum at the top level. In the second one a model
/// declined and another one answered: the top level is that answer alone.
pub(super) fn inner_calls(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.226");
    log.context.size = 60_000;
    ask(&mut log, "Is the plan for the cellar sound?")?;
    let mut response = log.begin_response(500);
    let (half, rest) = (response.usage.clone(), response.usage.clone());
    let first = BilledUsage { output: 100, ..half };
    let second = BilledUsage {
        input: 2,
        read: rest.input_side() - 2,
        write_5m: 300,
        write_1h: 0,
        output: 400,
    };
    response.usage = BilledUsage {
        input: first.input + second.input,
        read: first.read + second.read,
        write_5m: first.write_5m + second.write_5m,
        write_1h: first.write_1h,
        output: 500,
    };
    response.iterations = vec![first, second];
    response.others.push(InnerResponse {
        model: "claude-fable-5",
        usage: BilledUsage {
            input: 61_000,
            output: 2_000,
            ..BilledUsage::default()
        },
        has_declined: false,
    });
    let block = text_block(&mut log, &SynthText::of("It is, but for the stairs."));
    for stop in [None, Some("end_turn")] {
        write_line(&mut log, &mut response, &block.json, 500, stop)?;
    }
    log.end_response(&response, 500);
    ask(&mut log, "And the stairs?")?;
    let mut response = log.begin_response(90);
    response.others.push(InnerResponse {
        model: "claude-fable-5",
        usage: BilledUsage {
            input: 2,
            read: 20_000,
            write_1h: 40_000,
            output: 2,
            ..BilledUsage::default()
        },
        has_declined: true,
    });
    let block = text_block(&mut log, &SynthText::of("Two steps are loose."));
    write_line(&mut log, &mut response, &block.json, 90, Some("end_turn"))?;
    log.end_response(&response, 90);
    folder.save(log)?;
    Ok(())
}

pub(super) fn zeroed_usage(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    ask(&mut log, "Weigh the parcels.")?;
    // Only the iterations show what this response cost.
    let mut response = log.begin_response(333);
    response.zeroed = true;
    response.iterations = vec![response.usage.clone()];
    let block = text_block(&mut log, &SynthText::of("They weigh nine stones."));
    write_line(&mut log, &mut response, &block.json, 0, Some("end_turn"))?;
    log.end_response(&response, 0);
    // This response has its real usage on the first line; its zeroed second line adds nothing.
    ask(&mut log, "All of them?")?;
    let mut response = log.begin_response(88);
    let block = text_block(&mut log, &SynthText::of("All but one."));
    write_line(&mut log, &mut response, &block.json, 88, Some("end_turn"))?;
    let real = response.usage.clone();
    response.zeroed = true;
    response.iterations = vec![real];
    write_line(&mut log, &mut response, &block.json, 0, Some("end_turn"))?;
    response.zeroed = false;
    response.iterations.clear();
    log.end_response(&response, 88);
    folder.save(log)?;
    Ok(())
}

pub(super) fn unknown_model(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.226");
    log.model = "quartz-9-preview".to_owned();
    turn(&mut log, "Which model are you?", "One that nobody has a price for.")?;
    folder.save(log)?;
    Ok(())
}

pub(super) fn above_200k(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    log.threshold = 967_000;
    log.context.size = 262_000;
    ask(&mut log, "Read the whole cellar.")?;
    run(&mut log, 4_000)?;
    say(&mut log, "It is a large cellar.")?;
    folder.save(log)?;
    Ok(())
}

pub(super) fn synthetic_model(folder: &mut CaseFolder) -> io::Result<()> {
    for version in ["2.0.76", "2.1.220"] {
        let mut log = folder.log(version);
        turn(&mut log, "Carry the buckets.", "They are carried.")?;
        log.system(
            ",\"subtype\":\"api_error\",\"level\":\"error\",\"error\":{\"status\":529}",
            ",\"retryInMs\":520,\"retryAttempt\":1,\"maxRetries\":10",
        )?;
        log.synthetic("API Error: the service is overloaded, try again later.", true)?;
        log.synthetic("Nothing was asked.", false)?;
        folder.save(log)?;
    }
    Ok(())
}

pub(super) fn no_usage(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.29");
    ask(&mut log, "Is anyone there?")?;
    let id = api_id(&mut log.rng, "msg_01");
    let body = format!(
        ",\"message\":{{\"model\":\"claude-opus-4-5-20251101\",\"id\":\"{id}\",\"type\":\"message\",\"role\":\"assistant\",\
         \"content\":[{{\"type\":\"text\",\"text\":\"Yes.\"}}],\"stop_reason\":null,\"stop_sequence\":null}}"
    );
    log.other("assistant", &body)?;
    log.other(
        "assistant",
        &body.replace("\"stop_sequence\":null", "\"stop_sequence\":null,\"usage\":null"),
    )?;
    turn(&mut log, "Good.", "Indeed.")?;
    folder.save(log)?;
    Ok(())
}
