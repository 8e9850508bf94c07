//! Cases: unusual contents, ends of files, and damaged lines.

use super::{CaseFolder, CaseLog, PROJECT, ask, end_turn, lookup_block, project_file, say, turn, write_line};
use crate::damage::Damage;
use crate::drive::{ATTACHMENTS, attachment, local_command, local_command_output};
use crate::json::Uuid;
use crate::session::{ResultOrder, ToolOutput, string_value};
use crate::tools;
use crate::tools::{call_block, text_block};
use crate::words::{SynthText, TextFlavor};
use std::io;

pub(super) fn duplicate_reads(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    ask(&mut log, "Change the first line and check it.")?;
    let mut file = project_file(&mut log);
    for _ in 0..2 {
        let read = tools::read(&mut log, &file, 1, 40);
        log.respond(&[read], ResultOrder::CallsFirst)?;
    }
    let edit = tools::edit(&mut log, &mut file, 12, false);
    log.respond(&[edit], ResultOrder::CallsFirst)?;
    for (first, count) in [(1, 40), (9, 12)] {
        let read = tools::read(&mut log, &file, first, count);
        log.respond(&[read], ResultOrder::CallsFirst)?;
    }
    say(&mut log, "Changed and checked.")?;
    folder.save(log)?;
    Ok(())
}

pub(super) fn multi_script(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    for flavor in [
        TextFlavor::Chinese,
        TextFlavor::Arabic,
        TextFlavor::Russian,
        TextFlavor::Hindi,
        TextFlavor::Emoji,
        TextFlavor::Patterns,
    ] {
        let mut text = SynthText::default();
        log.pools.write(&mut log.rng, flavor, 120, &mut text);
        log.wait(2_000, 9_000);
        log.prompt(&text)?;
        let read = lookup_block(&mut log, flavor, 700);
        log.respond(&[read], ResultOrder::CallsFirst)?;
        log.pools.write(&mut log.rng, flavor, 60, &mut text);
        let block = text_block(&mut log, &text);
        log.respond(&[block], ResultOrder::CallsFirst)?;
    }
    turn(
        &mut log,
        "e\u{301} \u{200d}\u{feff}\u{2028}\u{2029} \u{0} \u{1f} \u{7f} \u{fffd} 𝄞",
        "naïve: \u{202e}oot tel\u{202c}",
    )?;
    folder.save(log)?;
    Ok(())
}

pub(super) fn attachments(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.226");
    ask(&mut log, "Here is everything I have.")?;
    for kind in ATTACHMENTS {
        attachment(&mut log, kind)?;
    }
    say(&mut log, "That is a lot.")?;
    folder.save(log)?;
    Ok(())
}

/// Says in three ways what no prompt holds. Older clients write nothing of a queued prompt but the operations on the queue.
pub(super) fn words_outside_prompts(folder: &mut CaseFolder) -> io::Result<()> {
    for version in ["2.1.29", "2.1.220"] {
        let mut log = folder.log(version);
        ask(&mut log, "Count the apples in every basket.")?;
        queue(
            &mut log,
            "enqueue",
            Some("{\"task_id\":\"b1\",\"task_type\":\"local_bash\"}"),
        )?;
        let typed = "Leave the quinces out of it.";
        queue(&mut log, "enqueue", Some(typed))?;
        if version == "2.1.220" {
            let body = format!("\"type\":\"queued_command\",\"prompt\":\"{typed}\",\"commandMode\":\"prompt\"");
            let body = format!("{{{body},\"origin\":{{\"kind\":\"human\"}}}}");
            log.attachment(&body, 20)?;
            queue(&mut log, "remove", Some(typed))?;
        } else {
            queue(&mut log, "remove", None)?;
        }
        queue(&mut log, "enqueue", Some("Weigh the pears while you are there."))?;
        queue(&mut log, "popAll", Some("Weigh the pears while you are there."))?;
        let refused = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). To tell you how to proceed, the user said:\nNever shake the tree.";
        let answered = "User has answered your questions: \"Which basket first?\"=\"The blue one\". You can now continue with the user's answers in mind.";
        for (tool, input, said, error) in [
            ("Bash", "{\"command\":\"shake --tree\"}", refused, true),
            (
                "AskUserQuestion",
                "{\"questions\":[{\"question\":\"Which basket first?\"}]}",
                answered,
                false,
            ),
        ] {
            let said = SynthText::of(said);
            let output = ToolOutput {
                content: string_value(&said),
                kept: Vec::new(),
                error,
                units: said.units,
                tokens: said.tokens(log.density()),
            };
            let call = call_block(&mut log, tool, input.as_bytes(), output);
            log.respond(&[call], ResultOrder::CallsFirst)?;
        }
        say(&mut log, "Twelve apples, and the tree stands still.")?;
        ask(&mut log, "Thank you.")?;
        queue(&mut log, "enqueue", Some("Thank you."))?;
        queue(&mut log, "dequeue", None)?;
        ask(&mut log, "Thank you.")?;
        say(&mut log, "Gladly.")?;
        folder.save(log)?;
    }
    Ok(())
}

/// Writes an operation on the queue of prompts.
fn queue(log: &mut CaseLog, operation: &str, content: Option<&str>) -> io::Result<()> {
    let content = content.map(|content| {
        let value = String::from_utf8_lossy(&string_value(&SynthText::of(content))).into_owned();
        format!(",\"content\":{value}")
    });
    let json = format!(
        "{{\"type\":\"queue-operation\",\"operation\":\"{operation}\",\"timestamp\":\"{}\",\"sessionId\":\"{}\"{}}}",
        crate::json::timestamp(log.now),
        log.identity.session_id,
        content.unwrap_or_default()
    );
    log.write_plain("queue-operation", &json)?;
    Ok(())
}

pub(super) fn local_commands(folder: &mut CaseFolder) -> io::Result<()> {
    for version in ["1.0.128", "2.1.29", "2.1.220"] {
        let mut log = folder.log(version);
        local_command(&mut log)?;
        local_command_output(&mut log, "/model", "Set model to \u{1b}[1mthe larger one\u{1b}[22m")?;
        turn(&mut log, "Is all well?", "All is well.")?;
        let shell = SynthText::of("<bash-input>ls baskets</bash-input>");
        let content = string_value(&shell);
        log.user(log.leaf, &content, "", b"")?;
        let shell = SynthText::of("<bash-stdout>one\ntwo</bash-stdout><bash-stderr></bash-stderr>");
        let content = string_value(&shell);
        log.user(log.leaf, &content, "", b"")?;
        folder.save(log)?;
    }
    Ok(())
}

pub(super) fn images_documents(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    let mut data = Vec::new();
    for (kind, media, label) in [
        ("image", "image/png", "What is in this picture?"),
        ("document", "application/pdf", "And in this paper?"),
    ] {
        data.clear();
        log.pools.base64(&mut log.rng, 6_000, &mut data);
        let content = [
            format!("[{{\"type\":\"text\",\"text\":\"{label}\"}},{{\"type\":\"{kind}\",\"source\":{{\"type\":\"base64\",\"media_type\":\"{media}\",\"data\":\"")
                .as_bytes(),
            &data,
            b"\"}}]",
        ]
        .concat();
        log.user(log.leaf, &content, "", b"")?;
        log.add_to_context(label.len() as u64, 1_500);
        say(&mut log, "A ladder against a wall.")?;
    }
    ask(&mut log, "Open the third yourself.")?;
    let picture = tools::picture(&mut log, 9_000);
    log.respond(&[picture], ResultOrder::CallsFirst)?;
    let list = ToolOutput {
        content: b"[{\"type\":\"text\",\"text\":\"one part\"},{\"type\":\"text\",\"text\":\"another part\"},{\"type\":\"tool_reference\",\"tool_name\":\"WebFetch\"}]".to_vec(),
        kept: Vec::new(),
        error: false,
        units: 20,
        tokens: 33,
    };
    let search = call_block(&mut log, "ToolSearch", b"{\"query\":\"select:WebFetch\"}", list);
    log.respond(&[search], ResultOrder::CallsFirst)?;
    say(&mut log, "The same ladder.")?;
    folder.save(log)?;
    Ok(())
}

pub(super) fn empty_file(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    turn(&mut log, "Is the other file empty?", "It is.")?;
    let name = Uuid::new(&mut folder.rng);
    folder.write(&format!("{PROJECT}/{}.jsonl", name.as_str()), b"")?;
    folder.truth.files += 1;
    folder.save(log)?;
    Ok(())
}

pub(super) fn live_tail(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    turn(&mut log, "Keep writing.", "I am.")?;
    log.sink.write_raw(
        b"{\"parentUuid\":null,\"isSidechain\":false,\"message\":{\"model\":\"claude-opus-5\",\"id\":\"msg_01",
    )?;
    log.truth.lines += 1;
    log.truth.pending_tails += 1;
    folder.save(log)?;
    Ok(())
}

pub(super) fn no_final_newline(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    turn(&mut log, "Stop here.", "Stopped.")?;
    // The last record has no usage, so the totals are the same whether or not a reader waits for the newline.
    end_turn(&mut log)?;
    let path = format!("{PROJECT}/{}.jsonl", log.identity.session_id);
    folder.save_at(&path, log, |mut bytes| {
        bytes.pop();
        bytes
    })?;
    Ok(())
}

/// Writes a session with one damaged record: the answer in the middle, the only line of its response.
pub(super) fn damaged(folder: &mut CaseFolder, damage: Damage) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    turn(&mut log, "Before the damage.", "All is well.")?;
    ask(&mut log, "Now it happens.")?;
    log.sink.force_damage(damage);
    say(&mut log, "This line is the one that suffers.")?;
    turn(&mut log, "After the damage.", "All is well again.")?;
    folder.save(log)?;
    Ok(())
}

pub(super) fn crlf(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    for _ in 0..2 {
        log.sink.force_damage(Damage::CarriageReturn);
        ask(&mut log, "Written on another system.")?;
        log.sink.force_damage(Damage::CarriageReturn);
        say(&mut log, "It reads the same.")?;
    }
    folder.save(log)?;
    Ok(())
}

pub(super) fn duplicate_keys(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    turn(&mut log, "Say it twice.", "Twice, twice.")?;
    // The repeated keys agree where it matters and differ only in the slug.
    log.truth.damage("duplicate_keys");
    log.other(
        "system",
        ",\"subtype\":\"informational\",\"content\":\"twice\",\"content\":\"twice\",\"slug\":\"other\"",
    )?;
    let mut response = log.begin_response(40);
    let block = b"{\"type\":\"text\",\"type\":\"text\",\"text\":\"Twice.\",\"text\":\"Twice.\"}";
    log.truth.damage("duplicate_keys");
    write_line(&mut log, &mut response, block, 40, Some("end_turn"))?;
    log.end_response(&response, 40);
    folder.save(log)?;
    Ok(())
}
