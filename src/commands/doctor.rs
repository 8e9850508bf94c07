//! `backcast doctor`: what backcast finds on this machine, and what to do next.

use crate::cli::DocumentFormat;
use crate::cli::defaults::{OptionDefaults, config_files};
use crate::commands::RunStatus;
use crate::commands::memory::folder::find_memories;
use crate::commands::policy::{client_settings_path, default_policy_name, load_policy, read_client_switches};
use crate::commands::writing::{OutputTarget, write_output};
use crate::run::{LogInput, LogNeeds, SelectionQuery, SessionView, resolve_cache_folder, session_folders, with_logs};
use crate::views::doctor::{AgentReport, CacheReport, DoctorView, RootReport, SettingReport, WindowReport};
use anyhow::Result;
use clap::Args;
use replay::policy::presets::{ClientVersion, PolicySet};
use replay::prices::PriceTable;
use replay::sim::policies_and_prices;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use table::OutputFormat;
use transcript::agents::Agent;
use transcript::discover::discover;
use transcript::log::{NO_TIME, Time};

/// Arguments of `doctor`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
It reads your session logs and the settings of the agent, and changes nothing. Status 1 if no session was found.

Examples:
  backcast doctor           the folders where agents keep their logs
  backcast doctor logs/     logs that are elsewhere
  backcast doctor -f json   the same for programs")]
pub struct DoctorArgs {
    /// Logs, folders or glob patterns. Without any, the folders where the agents keep their logs.
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// How it is written.
    #[arg(
        long,
        short,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        help_heading = "Output"
    )]
    pub format: DocumentFormat,
}

/// Runs it.
pub fn run(args: &DoctorArgs) -> Result<RunStatus> {
    let view = examine(args)?;
    let format = match args.format {
        DocumentFormat::Text => OutputFormat::Table,
        DocumentFormat::Json => OutputFormat::Json,
    };
    write_output(OutputTarget::stdout(format), |out, style| match args.format {
        DocumentFormat::Text => view.write_text(out, style),
        DocumentFormat::Json => view.write_document(out),
    })?;
    Ok(match view.session_count() {
        0 => RunStatus::Found,
        _ => RunStatus::Done,
    })
}

/// Looks at everything.
fn examine(args: &DoctorArgs) -> Result<DoctorView> {
    let roots = find_roots(&args.paths)?;
    let cache = resolve_cache_folder(None);
    let policies = load_policy(&default_policy_name())?;
    let found = match roots.iter().any(|root| root.logs > 0) {
        true => read_sessions(args, cache.clone(), &policies)?,
        false => FoundSessions::default(),
    };
    let memories = find_memories().map_err(|error| format!("{error:#}"));
    Ok(DoctorView {
        paths: args.paths.clone(),
        roots,
        agents: found.agents,
        windows: found.windows,
        unpriced_models: found.unpriced.into_iter().collect(),
        prices_as_of: PriceTable::built_in().as_of.clone(),
        cache: cache.map(|folder| CacheReport {
            is_writable: is_writable(&folder),
            bytes: folder_bytes(&folder),
            folder,
        }),
        policy: policies.name.clone(),
        config_files: config_files(),
        option_defaults: OptionDefaults::read()?.0.len(),
        settings_file: client_settings_path().filter(|path| path.is_file()),
        settings: read_client_switches()
            .map(|switches| {
                let switches = switches.into_iter().map(|switch| SettingReport {
                    key: switch.key,
                    value: switch.value.to_string(),
                    origin: switch.origin,
                });
                switches.collect()
            })
            .map_err(|error| format!("{error:#}")),
        memories,
    })
}

/// Looks for logs where agents keep them, or where they were named.
fn find_roots(paths: &[PathBuf]) -> Result<Vec<RootReport>> {
    let places = match paths {
        [] => {
            let folders = |agent: &Agent| {
                let agent = *agent;
                session_folders(agent)
                    .into_iter()
                    .map(move |folder| (Some(agent), folder))
            };
            Agent::ALL.iter().flat_map(folders).collect::<Vec<_>>()
        }
        paths => paths.iter().map(|path| (None, path.clone())).collect(),
    };
    let report = |(agent, folder): (Option<Agent>, PathBuf)| {
        let is_there = agent.is_none() || folder.is_dir();
        let found = match is_there {
            true => discover(std::slice::from_ref(&folder), false)?,
            false => Default::default(),
        };
        Ok(RootReport {
            agent,
            is_there,
            logs: found.logs.len(),
            bytes: found.logs.iter().map(|log| log.stamp.size).sum(),
            folder,
        })
    };
    places.into_iter().map(report).collect()
}

/// What the sessions show.
#[derive(Default)]
struct FoundSessions {
    agents: Vec<AgentReport>,
    windows: WindowReport,
    unpriced: BTreeSet<String>,
}

/// What one session shows.
struct SessionFacts {
    agent: Agent,
    has_calls: bool,
    versions: Vec<ClientVersion>,
    newest: Option<Time>,
    windows: WindowReport,
    unpriced: BTreeSet<String>,
}

fn read_sessions(args: &DoctorArgs, cache: Option<PathBuf>, policies: &PolicySet) -> Result<FoundSessions> {
    let input = LogInput {
        paths: args.paths.clone(),
        cache,
        selection: SelectionQuery::default(),
        ..LogInput::default()
    };
    let needs = LogNeeds {
        windows: true,
        ..LogNeeds::default()
    };
    let (sessions, account) = with_logs(input, needs, |source| {
        let run = source.read();
        let bar = source.session_bar(&run);
        let (sessions, _) = run.map_sessions(|view| {
            bar.inc(1);
            SessionFacts::new(view, policies)
        });
        (sessions, run.count_usage(source.options.cache, PriceTable::built_in()))
    })?;
    let mut found = FoundSessions::default();
    for agent in Agent::ALL {
        let own = sessions
            .iter()
            .filter(|session| session.agent == *agent && session.has_calls);
        let own = own.collect::<Vec<_>>();
        let Some(sessions) = account.sessions_by_agent.get(agent) else {
            continue;
        };
        let versions = || own.iter().flat_map(|session| session.versions.iter().copied());
        found.agents.push(AgentReport {
            agent: *agent,
            sessions: *sessions,
            versions: versions().min().zip(versions().max()),
            newest: own.iter().filter_map(|session| session.newest).max(),
        });
    }
    for session in sessions {
        found.windows.merge(&session.windows);
        found.unpriced.extend(session.unpriced);
    }
    Ok(found)
}

impl SessionFacts {
    fn new(view: &SessionView<'_>, policies: &PolicySet) -> SessionFacts {
        let mut facts = SessionFacts {
            agent: view.coding_agent(),
            has_calls: false,
            versions: Vec::new(),
            newest: None,
            windows: WindowReport::default(),
            unpriced: BTreeSet::new(),
        };
        let prices = PriceTable::built_in();
        for trace in view.traces() {
            let (by_version, by_model) = policies_and_prices(policies, prices, trace);
            let windows = view.infer_windows(trace, &by_version, &by_model);
            let calls = std::iter::zip(&trace.calls, &windows).filter(|(call, _)| !call.is_copied);
            for (call, window) in calls {
                facts.has_calls = true;
                facts.windows.add(window.confidence, trace.model(call));
                let version = trace.versions[usize::from(call.version)];
                if !facts.versions.contains(&version) && version != ClientVersion::default() {
                    facts.versions.push(version);
                }
                facts.newest = facts.newest.max(Some(call.time).filter(|time| *time != NO_TIME));
                if call.usage.is_some() && by_model[usize::from(call.model)].is_none() {
                    facts.unpriced.insert(trace.model(call).to_owned());
                }
            }
        }
        facts
    }
}

/// Whether files can be made in a folder, or in the nearest folder above it that is there.
fn is_writable(folder: &Path) -> bool {
    let there = folder.ancestors().find(|folder| folder.exists());
    there.is_some_and(|there| {
        there
            .metadata()
            .is_ok_and(|found| found.is_dir() && !found.permissions().readonly())
    })
}

/// Returns the size of all files below a folder.
fn folder_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => folder_bytes(&entry.path()),
        Ok(kind) if kind.is_file() => entry.metadata().map_or(0, |found| found.len()),
        _ => 0,
    });
    sizes.sum()
}
