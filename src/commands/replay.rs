//! `backcast replay`: sessions run through a policy.

use crate::cli::ReplayArgs;
use crate::commands::Ending;
use crate::commands::compare::{Chain, Compare, Compared};
use crate::commands::notes::read_conversation;
use crate::commands::policy::resolve;
use crate::commands::reading::{Reading, close, problem_counts, with_logs};
use crate::commands::replay_texts::{Losses, Written};
use crate::commands::writing::{check_free, emit, load_prices, write_page};
use crate::page;
use crate::page::Content;
use crate::page::rounds::{Round, SessionRounds};
use crate::run::Corpus;
use crate::views::compare_rows::CompareRow;
use crate::views::replay_rows::{
    Collector, Detail, MICRO_KINDS, ROUND_COLUMNS, Replayed, RoundRow, SCHEMA_VERSION, SESSION_COLUMNS, SessionRow,
    part_names,
};
use anyhow::{Context, Result, bail};
use replay::policy::presets::Policies;
use replay::prices::{PriceTable, micro_usd};
use replay::sim::event::{Cause, Event, Purpose, Sink};
use replay::sim::trace::trace;
use replay::sim::use_counts::UseCounts;
use replay::sim::uses::uses;
use replay::sim::working_set::{FETCH_KINDS, FetchKind, Outcome as UseOutcome};
use replay::sim::{Mode, Setting, Texts, by_number, replay, windows_of};
use replay::tokens::ledger::{CATEGORIES, Category};
use replay::tokens::ratios::RatioTable;
use replay::tune::score::chain_key;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use table::stream::{Batch, Stream};
use table::words::{count, dollars, grouped, percent};
use table::{Column, Format, InTable, Look, Sheet, Unit, atomic, column, sparkline};
use transcript::problem::{Kind, Problem, ProblemRow};
use transcript::thread::{Part, Session, thread};

/// Runs it.
pub fn run(args: &ReplayArgs) -> Result<Ending> {
    let policies = resolve(&args.policy)?;
    let prices = load_prices(args.policy.prices.as_deref())?;
    let compare = Compare::new(args, &policies)?;
    let files = args.out.as_deref().map(|folder| Files::new(folder, args)).transpose()?;
    check_free(args.html.as_deref(), args.force)?;
    let run = Run {
        args,
        policies: &policies,
        prices: &prices,
        compare: compare.as_ref(),
        files: files.as_ref(),
        is_drawn: args.html.is_some(),
    };
    let mut outcome = with_logs(&args.input, args.wants_uses(), |reading| run.replay(reading))??;
    if let Some(files) = &files {
        files.finish(&outcome, &policies, compare.as_ref(), args)?;
    }
    if let Some(path) = &args.html {
        let compared = compare
            .as_ref()
            .map(|compare| outcome.compared(compare, args).document());
        let drawn = outcome.draw(args, &policies, compared);
        write_page(
            path,
            args.force,
            args.input.quiet,
            Content {
                name: drawn.name.clone(),
                runs: vec![drawn],
                ..Content::default()
            },
        )?;
    }
    emit(&args.output(), |out, look| match &compare {
        Some(compare) => outcome.compared(compare, args).write(args.format, look, out),
        None => outcome.write(args, &policies, out, look),
    })?;
    Ok(close(&args.input, &outcome.problems))
}

/// A replay for a page that shows more than that.
pub(super) fn drawn(args: &ReplayArgs) -> Result<(page::Run, Vec<Problem>)> {
    let policies = resolve(&args.policy)?;
    let prices = load_prices(args.policy.prices.as_deref())?;
    let run = Run {
        args,
        policies: &policies,
        prices: &prices,
        compare: None,
        files: None,
        is_drawn: true,
    };
    let mut outcome = with_logs(&args.input, args.wants_uses(), |reading| run.replay(reading))??;
    Ok((outcome.draw(args, &policies, None), outcome.problems))
}

/// The last file of a run: it says that the rest is whole, and lists it.
const MANIFEST: &str = "manifest.json";

/// Every other file that a run may write.
const FILES: [&str; 9] = [
    "sessions.csv",
    "rounds.csv",
    "rounds.parquet",
    "boundaries.jsonl",
    "summary.json",
    "misses.jsonl",
    "events.jsonl",
    "compare.csv",
    "compare.json",
];

/// Those of this run.
fn files_of(args: &ReplayArgs) -> Vec<&'static str> {
    let rounds = format!("rounds.{}", args.rounds.extension());
    let is_written = |name: &str| match name {
        "rounds.csv" | "rounds.parquet" => name == rounds,
        "misses.jsonl" => args.wants_uses(),
        "events.jsonl" => args.events,
        "compare.csv" | "compare.json" => args.compare.is_some(),
        _ => true,
    };
    FILES.into_iter().filter(|name| is_written(name)).collect()
}

/// Where the files of a run go.
struct Files {
    folder: PathBuf,
    names: Vec<&'static str>,
    rounds: PathBuf,
    force: bool,
}

impl Files {
    /// Looks whether anything is in the way before the work begins.
    fn new(folder: &Path, args: &ReplayArgs) -> Result<Files> {
        let names = files_of(args);
        let targets = names.iter().chain([&MANIFEST]).map(|name| folder.join(name));
        if let Some(target) = targets.into_iter().find(|target| !args.force && target.exists()) {
            bail!("{} exists; use --force to replace it", target.display());
        }
        Ok(Files {
            folder: folder.to_path_buf(),
            names,
            rounds: folder.join(format!("rounds.{}", args.rounds.extension())),
            force: args.force,
        })
    }

    /// Takes away what an earlier run left and this one does not write, so that nobody takes it for a part of this one: the
    /// old manifest, and files that it lists as its own. Nothing else in the folder is touched.
    fn retire(&self) -> io::Result<()> {
        let manifest = self.folder.join(MANIFEST);
        let old = std::fs::read(&manifest).ok();
        let old = old.and_then(|bytes| serde_json::from_slice::<Json>(&bytes).ok());
        let Some((true, listed)) = old
            .as_ref()
            .map(|old| (old["backcast"].is_string(), old["files"].as_array()))
        else {
            return Ok(());
        };
        // The manifest first: without it, a folder that is half replaced is known to be.
        std::fs::remove_file(&manifest)?;
        let listed = listed.into_iter().flatten().filter_map(Json::as_str);
        for name in listed.filter(|name| FILES.contains(name) && !self.names.contains(name)) {
            let file = self.folder.join(name);
            if file.symlink_metadata().is_ok_and(|file| file.is_file()) {
                std::fs::remove_file(file)?;
            }
        }
        Ok(())
    }

    /// Everything but the rounds, which were written on the way. The manifest comes last: it says that the rest is whole.
    fn finish(
        &self,
        outcome: &Outcome,
        policies: &Policies,
        compare: Option<&Compare>,
        args: &ReplayArgs,
    ) -> Result<()> {
        let sheet = Sheet {
            schema_version: SCHEMA_VERSION,
            columns: SESSION_COLUMNS,
            rows: &outcome.sessions,
            total: None,
        };
        atomic::write_with(&self.folder.join("sessions.csv"), self.force, |out| {
            sheet.write(Format::Csv, Look::default(), out)
        })?;
        self.write_lines("boundaries.jsonl", &outcome.boundaries)?;
        if args.wants_uses() {
            self.write_lines("misses.jsonl", &outcome.misses)?;
        }
        if args.events {
            atomic::write(&self.folder.join("events.jsonl"), self.force, &outcome.events)?;
        }
        if let Some(compare) = compare {
            atomic::write_with(&self.folder.join("compare.csv"), self.force, |out| {
                outcome.compared(compare, args).write(Format::Csv, Look::default(), out)
            })?;
            atomic::write_with(&self.folder.join("compare.json"), self.force, |out| {
                outcome
                    .compared(compare, args)
                    .write(Format::Json, Look::default(), out)
            })?;
        }
        let documents = [
            ("summary.json", outcome.summary(policies)),
            (MANIFEST, outcome.manifest(policies, compare, args, &self.names)),
        ];
        for (name, document) in documents {
            let text = serde_json::to_string_pretty(&document)? + "\n";
            atomic::write(&self.folder.join(name), self.force, text.as_bytes())?;
        }
        Ok(())
    }

    /// An object a line.
    fn write_lines(&self, name: &str, objects: &[Json]) -> Result<()> {
        atomic::write_with(&self.folder.join(name), self.force, |out| {
            for object in objects {
                serde_json::to_writer(&mut *out, object)?;
                out.write_all(b"\n")?;
            }
            Ok(())
        })?;
        Ok(())
    }
}

struct Run<'a> {
    args: &'a ReplayArgs,
    policies: &'a Policies,
    prices: &'a PriceTable,
    compare: Option<&'a Compare>,
    files: Option<&'a Files>,
    /// Whether a page is wanted.
    is_drawn: bool,
}

/// What one session gives, its rounds encoded.
struct Done {
    replayed: Replayed,
    compared: Option<CompareRow>,
    losses: Option<Losses>,
    batch: io::Result<Batch<RoundRow>>,
    drawn: Option<SessionRounds>,
    problems: Vec<Problem>,
}

impl Run<'_> {
    fn replay(&self, reading: Reading<'_>) -> Result<Outcome> {
        let corpus = Corpus::read(reading.logs, &reading.options);
        let summary = learned_summary(&corpus);
        let bar = reading.work_bar(&corpus);
        let mut outcome = Outcome {
            logs: reading.logs.len(),
            learned_summary: summary,
            ..Outcome::default()
        };
        let defects = match self.files {
            None => corpus.stream_sessions(
                |id, parts| self.session(&corpus, id, parts, summary),
                |done| {
                    bar.inc(1);
                    outcome.take(done).map(|_| ())
                },
            )?,
            Some(files) => {
                outcome.inputs = corpus.hash_logs();
                std::fs::create_dir_all(&files.folder).with_context(|| format!("making {}", files.folder.display()))?;
                let mut defects = Vec::new();
                atomic::write_with(&files.rounds, files.force, |out| {
                    let mut stream = Stream::new(self.args.rounds, SCHEMA_VERSION, ROUND_COLUMNS, out)?;
                    defects = corpus.stream_sessions(
                        |id, parts| self.session(&corpus, id, parts, summary),
                        |done| {
                            bar.inc(1);
                            let batch = outcome.take(done)?;
                            stream.push(batch, out)
                        },
                    )?;
                    stream.finish(out)?;
                    // Nothing can go wrong any more but the disk: now the earlier run may go.
                    files.retire()
                })?;
                defects
            }
        };
        outcome.problems.extend(corpus.problems);
        outcome.problems.extend(reading.problems());
        outcome.problems.extend(defects);
        outcome.problems.sort();
        Ok(outcome)
    }

    fn session(&self, corpus: &Corpus, id: &str, parts: &[Part], summary: Option<u64>) -> Done {
        let session = Session::new(id, parts);
        let mut threaded = thread(&session);
        let mut replayed = Replayed::default();
        replayed.row.session = id.to_owned();
        replayed.row.project = project(&session).to_owned();
        replayed.row.has_working_set = self.args.wants_uses();
        let mut compared = self.compare.map(|_| CompareRow {
            session: replayed.row.session.clone(),
            project: replayed.row.project.clone(),
            ..CompareRow::default()
        });
        let mut losses = self.args.with_text.then(Losses::default);
        let mut unread = Vec::new();
        for (number, chain) in threaded.chains.iter().enumerate() {
            let trace = trace(&session, chain, RatioTable::built_in());
            let (by_version, by_model) = by_number(self.policies, self.prices, &trace);
            let windows = windows_of(&trace, &by_version, &by_model);
            let wants_rows = self.files.is_some() || self.is_drawn;
            let detail = Detail {
                rounds: wants_rows,
                boundaries: wants_rows,
                events: self.args.events,
            };
            let uses = self.args.wants_uses().then(|| uses(&session, &trace));
            let conversation = (self.args.with_text && !chain.is_sidechain).then(|| {
                let (conversation, problems) = read_conversation(corpus, &session, chain);
                unread.extend(problems);
                conversation
            });
            let policy = by_version.last().copied();
            let written = conversation.as_ref().zip(policy);
            let written = written.map(|(conversation, policy)| Written::new(conversation, &trace, policy));
            let first_boundary = replayed.boundaries.len();
            let mut collector = Collector::new(id, Some(&session), &trace, &windows, &by_model, &mut replayed, detail);
            let setting = Setting {
                policies: &by_version,
                prices: &by_model,
                windows: &windows,
                summary,
                mode: Mode::Free,
                uses: uses.as_ref(),
                texts: written.as_ref().map(|written| written as &dyn Texts),
                key: chain_key(id, number),
            };
            replay(&trace, &setting, &mut |at: u32, event: &Event<'_>| {
                if let Some(written) = &written {
                    written.event(at, event);
                }
                collector.event(at, event);
            });
            collector.finish();
            if let (Some(written), Some(losses)) = (&written, &mut losses) {
                losses.add(written.losses(&mut replayed.boundaries[first_boundary..]));
            }
            if let (Some(compare), Some(uses), Some(row)) = (self.compare, &uses, &mut compared) {
                let chain = Chain {
                    session: &session,
                    trace: &trace,
                    uses,
                    summary,
                    key: setting.key,
                };
                compare.chain(self.policies, self.prices, &chain, row);
            }
        }
        let mut problems = std::mem::take(&mut threaded.problems);
        problems.extend(unread);
        if replayed.row.defects > 0 {
            let path = &parts[0].path;
            problems.push(Problem::file(path, Kind::Internal, format!("replay of session {id}")));
        }
        let mut rounds = std::mem::take(&mut replayed.rounds);
        let drawn = self.is_drawn.then(|| {
            let calls = rounds.iter().map(|row| (row.agent.clone(), Round::from(row)));
            SessionRounds::new(id, &calls.collect::<Vec<_>>())
        });
        if self.files.is_none() {
            rounds.clear();
        }
        Done {
            drawn,
            batch: Batch::new(self.args.rounds, SCHEMA_VERSION, ROUND_COLUMNS, rounds),
            replayed,
            compared,
            losses,
            problems,
        }
    }
}

/// Working directory of the first own record.
fn project<'a>(session: &Session<'a>) -> &'a str {
    let first = session.own_nodes().next();
    first.map_or("", |node| {
        let log = session.log(node);
        log.string(log.scope_of(session.record(node)).cwd)
    })
}

/// Median size of the summaries of all sessions.
pub(super) fn learned_summary(corpus: &Corpus) -> Option<u64> {
    let summaries = corpus.map_compacted(|id, parts| {
        let session = Session::new(id, parts);
        let traces = thread(&session).chains;
        let traces = traces
            .iter()
            .map(|chain| trace(&session, chain, RatioTable::built_in()));
        let sizes = traces.flat_map(|trace| trace.recorded.into_iter().map(|boundary| u64::from(boundary.summary)));
        sizes.filter(|tokens| *tokens > 0).collect::<Vec<_>>()
    });
    let mut sizes = summaries.into_iter().flatten().collect::<Vec<_>>();
    sizes.sort_unstable();
    sizes.get(sizes.len() / 2).copied()
}

/// Everything that was found out.
#[derive(Default)]
struct Outcome {
    sessions: Vec<SessionRow>,
    total: SessionRow,
    compared: Vec<CompareRow>,
    losses: Option<Losses>,
    boundaries: Vec<Json>,
    misses: Vec<Json>,
    ledger: BTreeMap<(Category, String), (u64, u64)>,
    drawn: Vec<SessionRounds>,
    events: Vec<u8>,
    problems: Vec<Problem>,
    inputs: Vec<(String, u64, Option<[u8; 32]>)>,
    learned_summary: Option<u64>,
    logs: usize,
}

impl Outcome {
    fn take(&mut self, done: Done) -> io::Result<Batch<RoundRow>> {
        self.total.merge(&done.replayed.row);
        self.sessions.push(done.replayed.row);
        self.compared.extend(done.compared);
        if let Some(losses) = done.losses {
            self.losses.get_or_insert_default().add(losses);
        }
        self.boundaries.extend(done.replayed.boundaries);
        self.misses.extend(done.replayed.misses);
        self.drawn.extend(done.drawn);
        for (of, (blocks, tokens)) in done.replayed.ledger {
            let sum = self.ledger.entry(of).or_default();
            sum.0 += blocks;
            sum.1 += tokens;
        }
        self.events.extend(done.replayed.events);
        self.problems.extend(done.problems);
        done.batch
    }

    fn compared<'a>(&'a self, compare: &'a Compare, args: &ReplayArgs) -> Compared<'a> {
        Compared {
            compare,
            rows: &self.compared,
            logs: self.logs,
            top: args.top,
        }
    }

    /// What a page shows of it.
    fn draw(&mut self, args: &ReplayArgs, policies: &Policies, compare: Option<Json>) -> page::Run {
        let mut summary = self.summary(policies);
        let listed = self.problems.iter().map(ProblemRow::from).collect::<Vec<_>>();
        summary["problems"]["list"] = json!(listed);
        let sessions = session_sheet(&self.sessions, None).to_json();
        page::Run {
            name: [std::slice::from_ref(&policies.name), &args.policy.set]
                .concat()
                .join(" "),
            summary,
            sessions: page::rows(sessions),
            rounds: std::mem::take(&mut self.drawn),
            boundaries: std::mem::take(&mut self.boundaries),
            misses: std::mem::take(&mut self.misses),
            compare,
        }
    }

    /// What the blocks of all sessions are, in the form of the ledger of `stats`.
    fn ledger_json(&self) -> Json {
        let whole = self.ledger.values().map(|(_, tokens)| tokens).sum::<u64>();
        let amount = |blocks: u64, tokens: u64| json!({"blocks": blocks, "tokens": tokens, "share": (whole > 0).then(|| tokens as f64 / whole as f64)});
        let mut categories = serde_json::Map::new();
        for category in CATEGORIES {
            let of_category = self.ledger.iter().filter(|((of, _), _)| *of == category);
            let (mut blocks, mut tokens) = (0, 0);
            let mut named = serde_json::Map::new();
            for ((_, name), (more_blocks, more_tokens)) in of_category {
                blocks += more_blocks;
                tokens += more_tokens;
                if !name.is_empty() {
                    named.insert(name.clone(), amount(*more_blocks, *more_tokens));
                }
            }
            let mut entry = amount(blocks, tokens);
            if !named.is_empty() {
                entry["by_name"] = named.into();
            }
            categories.insert(category.name().to_owned(), entry);
        }
        let blocks = self.ledger.values().map(|(blocks, _)| blocks).sum();
        json!({"total": amount(blocks, whole), "categories": categories})
    }

    fn summary(&self, policies: &Policies) -> Json {
        let total = &self.total;
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let window_total = total.parts_sum.iter().sum::<u128>().max(1);
        let parts = std::iter::zip(part_names(), total.parts_sum)
            .map(|(name, sum)| (name.replace(' ', "_"), json!(sum as f64 / window_total as f64)))
            .collect::<serde_json::Map<_, _>>();
        let micro = MICRO_KINDS
            .iter()
            .map(|kind| (kind.name().to_owned(), json!(total.micro[*kind as usize])));
        let purposes = [
            ("compact", Purpose::Compact),
            ("notes", Purpose::Notes),
            ("extract", Purpose::Extract),
        ];
        let side = purposes.map(|(name, purpose)| {
            let at = purpose as usize;
            let value = json!({"calls": total.side_calls[at], "cost_micro_usd": micro_usd(total.side_costs[at])});
            (name.to_owned(), value)
        });
        json!({
            "schema_version": SCHEMA_VERSION,
            "policy": policies.name,
            "sessions": self.sessions.len(),
            "sessions_with_compactions": self.sessions.iter().filter(|session| session.compactions() > 0).count(),
            "calls": total.calls,
            "boundaries": {
                "auto": total.boundaries[Cause::Auto as usize],
                "manual": total.boundaries[Cause::Manual as usize],
                "reactive": total.boundaries[Cause::Reactive as usize],
                "by_notes": total.by_notes,
                "again": total.again,
                "at_recorded_places": total.as_recorded,
                "recorded": total.recorded,
                "freed_tokens": total.freed,
            },
            "micro": serde_json::Map::from_iter(micro),
            "micro_cleared": total.cleared,
            "micro_saved_tokens": total.saved,
            "failures": total.failures,
            "prompt_too_long": total.too_long,
            "blocked_calls": total.blocked_calls,
            "notes_updates": total.notes,
            "extractions": total.extractions,
            "consolidations": self.consolidations(policies),
            "window": {"peak": total.peak, "mean": total.mean(), "shares": parts},
            "cost_micro_usd": total.total_cost().map(micro_usd),
            "conversation_micro_usd": micro_usd(total.cost),
            "recorded_micro_usd": micro_usd(total.recorded_cost),
            "side_calls": serde_json::Map::from_iter(side),
            "side_cached_share": share(total.side_shared.0, total.side_shared.1),
            "unpriced_calls": total.unpriced,
            "unexplained_cache_misses": total.unexplained_misses,
            "limits": {
                "open_loop": true,
                "in_step_share": share(total.in_step, total.calls),
                "estimated_share": share(total.measured.1, total.measured.0 + total.measured.1),
                "assumed_window_calls": total.assumed_windows,
                "learned_summary_tokens": self.learned_summary,
            },
            "ledger": (!self.ledger.is_empty()).then(|| self.ledger_json()),
            "working_set": total.has_working_set.then(|| working_set_json(&total.working_set, total.calls)),
            "texts": self.losses.as_ref().map(Losses::json),
            "results_without_calls": total.orphans,
            "defects": total.defects,
            "problems": {"total": self.problems.len(), "by_kind": problem_counts(&self.problems)},
        })
    }

    /// How often the memories of the projects would have been consolidated: enough hours and enough sessions since.
    fn consolidations(&self, policies: &Policies) -> u64 {
        let policy = policies.of(None);
        if !policy.extract_on {
            return 0;
        }
        let mut projects = BTreeMap::<&str, Vec<i64>>::new();
        for session in &self.sessions {
            if let Some((_, last)) = session.times {
                projects.entry(&session.project).or_default().push(last);
            }
        }
        let mut count = 0;
        for ends in projects.values_mut() {
            ends.sort_unstable();
            let (mut since, mut sessions) = (ends[0], 0);
            for &end in ends.iter() {
                sessions += 1;
                let is_due = end - since >= policy.dream_hours as i64 * 3_600_000;
                if is_due && sessions >= policy.dream_sessions {
                    count += 1;
                    (since, sessions) = (end, 0);
                }
            }
        }
        count
    }

    fn manifest(&self, policies: &Policies, compare: Option<&Compare>, args: &ReplayArgs, files: &[&str]) -> Json {
        let inputs = self.inputs.iter().map(|(path, bytes, hash)| {
            let hash = hash.map(|hash| blake3::Hash::from_bytes(hash).to_hex().to_string());
            json!({"path": path, "bytes": bytes, "blake3": hash})
        });
        let policy = |policies: &Policies| {
            let ranges = policies
                .ranges()
                .iter()
                .map(|(from, policy)| json!({"from_version": from.to_string(), "values": policy.to_toml()}));
            json!({"name": policies.name, "ranges": ranges.collect::<Vec<_>>(), "origins": policies.origins})
        };
        json!({
            "schema_version": SCHEMA_VERSION,
            "backcast": env!("CARGO_PKG_VERSION"),
            "policy": policy(policies),
            "compared_with": compare.map(|compare| policy(&compare.second)),
            "prices": args.policy.prices.as_ref().map_or_else(|| "built-in".into(), |path| path.display().to_string()),
            "files": files,
            "inputs": inputs.collect::<Vec<_>>(),
        })
    }

    fn write(&self, args: &ReplayArgs, policies: &Policies, out: &mut dyn Write, look: Look) -> io::Result<()> {
        match args.format {
            Format::Table => self.write_text(args, policies, out, look),
            Format::Json => {
                serde_json::to_writer_pretty(&mut *out, &self.summary(policies))?;
                writeln!(out)
            }
            format => session_sheet(&self.sessions, None).write(format, look, out),
        }
    }

    fn write_text(&self, args: &ReplayArgs, policies: &Policies, out: &mut dyn Write, look: Look) -> io::Result<()> {
        let total = &self.total;
        writeln!(
            out,
            "Policy {}: {} of {}, {}\n",
            policies.name,
            count(self.sessions.len() as u64, "session"),
            count(self.logs as u64, "log"),
            count(total.calls, "call")
        )?;
        let mut order = (0..self.sessions.len())
            .filter(|at| self.sessions[*at].calls > 0)
            .collect::<Vec<_>>();
        let weight = |at: usize| {
            (
                self.sessions[at].compactions(),
                self.sessions[at].total_cost().unwrap_or(0),
            )
        };
        order.sort_by_key(|&at| (std::cmp::Reverse(weight(at)), at));
        let with_calls = order.len();
        order.truncate(if args.top == 0 { with_calls } else { args.top });
        let shown = order.iter().map(|&at| self.sessions[at].short()).collect::<Vec<_>>();
        let all = SessionRow {
            session: "all".to_owned(),
            ..total.clone()
        };
        let on_screen = on_screen();
        let sheet = Sheet {
            columns: &on_screen,
            ..session_sheet(&shown, Some(&all))
        };
        sheet.write(Format::Table, look, out)?;
        if shown.len() < with_calls {
            writeln!(
                out,
                "The {} with most compactions of {} sessions; --top 0 shows all.",
                shown.len(),
                grouped(with_calls as u64)
            )?;
        }
        writeln!(out)?;
        self.write_window(out, look)?;
        self.write_facts(policies, out)
    }

    fn write_window(&self, out: &mut dyn Write, look: Look) -> io::Result<()> {
        let calls = u128::from(self.total.window_calls.max(1));
        let whole = self.total.parts_sum.iter().sum::<u128>().max(1);
        let rows = std::iter::zip(part_names(), self.total.parts_sum)
            .filter(|(_, sum)| *sum > 0)
            .map(|(name, sum)| PartRow {
                name: name.replace('_', " "),
                mean: (sum / calls) as u64,
                share: sum as f64 / whole as f64,
            })
            .collect::<Vec<_>>();
        let sheet = Sheet {
            schema_version: SCHEMA_VERSION,
            columns: PART_COLUMNS,
            rows: &rows,
            total: None,
        };
        sheet.write(Format::Table, look, out)
    }

    fn write_working_set(&self, out: &mut dyn Write) -> io::Result<()> {
        let counts = &self.total.working_set;
        let (Some((low, high)), true) = (counts.hit_ratio(), self.total.has_working_set) else {
            return Ok(());
        };
        let calls = self.total.calls.max(1) as f64;
        let (most, least) = (counts.misses(), counts.misses_credited());
        writeln!(
            out,
            "Uses of known files: {}; hits {:.1} to {:.1} % (restored files not credited,\n  credited), misses {:.2} to {:.2} in 100 calls.",
            grouped(counts.uses()),
            100.0 * low,
            100.0 * high,
            100.0 * least as f64 / calls,
            100.0 * most as f64 / calls
        )?;
        if let Some((low, high)) = counts.at_risk_ratio() {
            writeln!(
                out,
                "  Of {} 20,000 tokens or more away, {:.1} to {:.1} % hit.",
                count(counts.at_risk_uses(), "use"),
                100.0 * low,
                100.0 * high
            )?;
        }
        let by_tool = counts
            .by_tool()
            .map(|(tool, uses, (most, least))| format!("{tool} {least} to {most} of {}", grouped(uses)))
            .collect::<Vec<_>>();
        writeln!(out, "  Misses by tool: {}.", by_tool.join(", "))?;
        let (most, least) = counts.reference_misses();
        writeln!(
            out,
            "Files named: {}; nothing of the file in the window: {least} to {most}.",
            grouped(counts.references.iter().sum())
        )?;
        writeln!(
            out,
            "Reads of what had been dropped: {} ({}); prompts summarised: {}.",
            grouped(counts.fetches[FetchKind::Refetch as usize]),
            count(counts.fetch_tokens[FetchKind::Refetch as usize], "token"),
            grouped(counts.prompts)
        )
    }

    fn write_facts(&self, policies: &Policies, out: &mut dyn Write) -> io::Result<()> {
        let total = &self.total;
        writeln!(
            out,
            "\nCompactions: {} automatic, {} asked for, {} after a refused prompt; {} by notes;\n  {} at the place of a recorded one ({} recorded).",
            total.boundaries[Cause::Auto as usize],
            total.boundaries[Cause::Manual as usize],
            total.boundaries[Cause::Reactive as usize],
            total.by_notes,
            total.as_recorded,
            total.recorded
        )?;
        let micro = MICRO_KINDS
            .iter()
            .map(|kind| (kind.name(), total.micro[*kind as usize]))
            .filter(|(_, count)| *count > 0);
        let micro = micro.map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>();
        if !micro.is_empty() {
            writeln!(
                out,
                "Micro-compactions: {}; {} cleared, {}.",
                micro.join(", "),
                count(total.cleared, "result"),
                count(total.saved, "token")
            )?;
        }
        if total.failures + total.too_long + total.blocked_calls > 0 {
            writeln!(
                out,
                "Failed compactions: {}; refused prompts: {}; calls of blocked sessions: {}.",
                total.failures, total.too_long, total.blocked_calls
            )?;
        }
        if total.notes + total.extractions > 0 {
            writeln!(
                out,
                "Notes updated {}, memories extracted {}, consolidated {}.",
                count(total.notes, "time"),
                count(total.extractions, "time"),
                count(self.consolidations(policies), "time")
            )?;
        }
        writeln!(
            out,
            "Cost: {} for the conversation ({} by recorded usage),\n  {} beside it, where {} of the input comes from the prompt cache.",
            dollars(Some(micro_usd(total.cost))),
            dollars(Some(micro_usd(total.recorded_cost))),
            dollars(Some(micro_usd(total.side_costs.iter().sum()))),
            percent(total.side_shared.0, total.side_shared.1)
        )?;
        self.write_working_set(out)?;
        writeln!(
            out,
            "Open loop: messages are taken as recorded, whatever the policy dropped.\n  {} of the calls are in step with the record; {} of the tokens are\n  estimated.",
            percent(total.in_step, total.calls),
            percent(total.measured.1, total.measured.0 + total.measured.1)
        )
    }
}

fn working_set_json(counts: &UseCounts, calls: u64) -> Json {
    let pair = |range: Option<(f64, f64)>| range.map(|(low, high)| json!({"not_credited": low, "credited": high}));
    let fetches = FETCH_KINDS.map(|kind| {
        let at = kind as usize;
        let value = json!({"count": counts.fetches[at], "tokens": counts.fetch_tokens[at]});
        (kind.name().to_owned(), value)
    });
    let by_tool = counts.by_tool().map(|(tool, uses, (misses, misses_credited))| {
        let value = json!({"uses": uses, "misses": misses, "misses_credited": misses_credited});
        (tool.to_owned(), value)
    });
    let per_hundred = |misses: u64| (calls > 0).then(|| 100.0 * misses as f64 / calls as f64);
    json!({
        "uses": counts.uses(),
        "misses": counts.misses(),
        "misses_credited": counts.misses_credited(),
        "misses_in_flight": counts.outcomes[UseOutcome::InFlight as usize],
        "misses_per_100_calls": {
            "not_credited": per_hundred(counts.misses()),
            "credited": per_hundred(counts.misses_credited()),
        },
        "hit_share": pair(counts.hit_ratio()),
        "at_risk_uses": counts.at_risk_uses(),
        "at_risk_hit_share": pair(counts.at_risk_ratio()),
        "by_tool": serde_json::Map::from_iter(by_tool),
        "references": {
            "named": counts.references.iter().sum::<u64>(),
            "misses": counts.reference_misses().0,
            "misses_credited": counts.reference_misses().1,
        },
        "reads": serde_json::Map::from_iter(fetches),
        "prompts_summarized": counts.prompts,
    })
}

fn session_sheet<'a>(rows: &'a [SessionRow], total: Option<&'a SessionRow>) -> Sheet<'a, SessionRow> {
    Sheet {
        schema_version: SCHEMA_VERSION,
        columns: SESSION_COLUMNS,
        rows,
        total,
    }
}

/// Columns for a screen: the course of the window says more than its mean.
fn on_screen() -> Vec<Column<SessionRow>> {
    let course = column(
        "window",
        "Window",
        Unit::Drawing,
        InTable::Always,
        "Its course.",
        |row: &SessionRow| sparkline(&row.course, 8).into(),
    );
    let kept = SESSION_COLUMNS.iter().filter(|column| column.name != "mean").copied();
    kept.chain([course]).collect()
}

/// A part of the window.
struct PartRow {
    name: String,
    mean: u64,
    share: f64,
}

const PART_COLUMNS: &[Column<PartRow>] = &[
    column(
        "part",
        "What is in the window",
        Unit::Text,
        InTable::Always,
        "Category.",
        |row| row.name.as_str().into(),
    ),
    column(
        "mean",
        "Mean",
        Unit::Tokens,
        InTable::Always,
        "Tokens, mean over calls.",
        |row| row.mean.into(),
    ),
    column(
        "share",
        "Share",
        Unit::Share,
        InTable::Always,
        "Share of the window.",
        |row| row.share.into(),
    ),
];
