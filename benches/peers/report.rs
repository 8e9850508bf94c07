//! The report: times, claims, and the tokens that each contender counted.

use crate::corpora::BenchCorpus;
use crate::options::Options;
use crate::races::{Contender, Race};
use crate::tools::{CCUSAGE_VERSION, Tools};
use std::collections::BTreeMap;
use std::fmt::Write as _;

struct Claim {
    text: String,
    bound: Bound,
    required: f64,
    aim: Option<f64>,
    unit: &'static str,
    measured: Option<f64>,
    by_min: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    AtLeast,
    AtMost,
    Below,
}

impl Bound {
    fn sign(self) -> &'static str {
        match self {
            Self::AtLeast => ">=",
            Self::AtMost => "<=",
            Self::Below => "<",
        }
    }
}

impl Claim {
    fn verdict(&self) -> &'static str {
        let meets = |value: f64, limit: f64| match self.bound {
            Bound::AtLeast => value >= limit,
            Bound::AtMost => value <= limit,
            Bound::Below => value < limit,
        };
        match self.measured {
            None => "not run",
            Some(value) if !meets(value, self.required) => "short",
            Some(value) if self.aim.is_some_and(|aim| meets(value, aim)) => "ok, aim met",
            Some(_) => "ok",
        }
    }
}

pub fn report(options: &Options, tools: &Tools, corpora: &[BenchCorpus], races: &[Race]) -> String {
    let mut text = String::new();
    for corpus in corpora {
        let _ = writeln!(
            text,
            "corpus {}: {} files, {:.1} MB, {} lines, longest {} bytes",
            corpus.name,
            corpus.files.len(),
            corpus.bytes as f64 / 1e6,
            corpus.lines,
            corpus.longest_line
        );
    }
    let cold = races.iter().map(|race| race.cold).sum::<usize>();
    let _ = writeln!(
        text,
        "{} timed rounds, interleaved, page cache warm ({cold} runs that were not were repeated)\n",
        options.repeat
    );
    text.push_str(&table(races));
    for line in tools.missing() {
        let _ = writeln!(text, "{line}");
    }
    for race in races {
        if let Some(failure) = &race.failure {
            let failure: String = failure.chars().take(60).collect();
            let _ = writeln!(text, "{} on {}: {failure}", race.contender.name(), race.corpus);
        }
    }
    if tools
        .ccusage
        .as_ref()
        .is_some_and(|tool| !tool.version.contains(CCUSAGE_VERSION))
    {
        let _ = writeln!(text, "the claims are stated against ccusage {CCUSAGE_VERSION}");
    }
    text.push('\n');
    text.push_str(&claim_table(&claims(corpora, races)));
    text.push_str(&counted_table(races));
    text
}

fn table(races: &[Race]) -> String {
    let mut text = format!(
        "{:<24} {:<6} {:>8} {:>8} {:>6} {:>7} {:>6} {:>6}\n",
        "contender", "corpus", "min s", "median", "GB/s", "ratio", "anon", "rss"
    );
    let mib = |kib: Option<u64>| kib.map_or("-".into(), |kib| format!("{:.1}", kib as f64 / 1024.0));
    for race in races {
        let (Some(min), Some(median)) = (race.min(), race.median()) else {
            let _ = writeln!(text, "{:<24} {:<6} {:>8}", race.contender.name(), race.corpus, "failed");
            continue;
        };
        let base = find(races, race.corpus, Contender::Backcast).and_then(Race::median);
        let ratio = base.map_or("-".into(), |base| times(median / base));
        let _ = writeln!(
            text,
            "{:<24} {:<6} {min:>8.4} {median:>8.4} {:>6.2} {ratio:>7} {:>6} {:>6}",
            race.contender.name(),
            race.corpus,
            race.bytes as f64 * race.scale / median / 1e9,
            mib(race.anon_kib),
            mib(race.rss_kib),
        );
    }
    text.push_str("ratio: median wall time over that of `backcast stats`; anon, rss: peak MiB\n");
    text
}

/// Two decimals where they mean something.
fn times(ratio: f64) -> String {
    if ratio < 100.0 {
        format!("{ratio:.2}x")
    } else {
        format!("{ratio:.0}x")
    }
}

fn find<'a>(races: &'a [Race], corpus: &str, contender: Contender) -> Option<&'a Race> {
    races
        .iter()
        .find(|race| race.corpus == corpus && race.contender == contender)
}

fn claims(corpora: &[BenchCorpus], races: &[Race]) -> Vec<Claim> {
    use Bound::{AtLeast, AtMost, Below};
    use Contender as C;

    let many = corpora.first().map_or("many", |corpus| corpus.name);
    let ratio = |corpus: &str, slow: Contender, fast: Contender, time: fn(&Race) -> Option<f64>| {
        Some(time(find(races, corpus, slow)?)? / time(find(races, corpus, fast)?)?)
    };
    let claim = |text: &str, corpus: &str, slow, fast, bound, required, aim| Claim {
        text: format!("{text}, {corpus}"),
        bound,
        required,
        aim,
        unit: "x",
        measured: ratio(corpus, slow, fast, Race::median),
        by_min: ratio(corpus, slow, fast, Race::min),
    };
    let mut claims = vec![
        claim(
            "ccusage / backcast",
            many,
            C::Ccusage,
            C::Backcast,
            AtLeast,
            4.0,
            Some(7.0),
        ),
        claim(
            "ccusage / backcast",
            "huge",
            C::Ccusage,
            C::Backcast,
            AtLeast,
            10.0,
            Some(18.0),
        ),
        claim(
            "ccusage / backcast",
            "codex",
            C::Ccusage,
            C::Backcast,
            AtLeast,
            1.0,
            None,
        ),
    ];
    claims.push(codex_speed(races, many));
    // The fastest query that was found for it, and the one that people write.
    for (text, query) in [
        ("DuckDB, same fields / backcast", C::DuckdbSame),
        ("DuckDB, same, ->> / backcast", C::DuckdbOperators),
    ] {
        claims.push(claim(text, many, query, C::Backcast, AtLeast, 15.0, Some(20.0)));
    }
    // The scan of this runner is as fast as we can make one; the other is the one that people have.
    for (text, scan) in [
        ("1 thread / newline scan", C::ScanOneThread),
        ("1 thread / wc -l", C::Wc),
    ] {
        for corpus in [many, "huge"] {
            let one = C::BackcastOneThread;
            claims.push(claim(text, corpus, one, scan, AtMost, 2.5, Some(1.7)));
        }
    }
    claims.push(claim(
        "backcast / cached",
        many,
        C::Backcast,
        C::BackcastCached,
        AtLeast,
        10.0,
        None,
    ));
    for corpus in [many, "huge", "codex"] {
        let ours = [C::Backcast, C::BackcastOneThread, C::BackcastCached];
        let peak = ours
            .iter()
            .filter_map(|ours| find(races, corpus, *ours)?.anon_kib)
            .max();
        claims.push(Claim {
            text: format!("peak memory outside maps, {corpus}"),
            bound: Below,
            required: 64.0,
            aim: None,
            unit: " MiB",
            measured: peak.map(|kib| kib as f64 / 1024.0),
            by_min: None,
        });
    }
    claims
}

/// Lines of Codex go through one more step, the translation.
fn codex_speed(races: &[Race], many: &str) -> Claim {
    let speed = |corpus: &str, time: fn(&Race) -> Option<f64>| {
        let race = find(races, corpus, Contender::BackcastOneThread)?;
        Some(race.bytes as f64 / time(race)?)
    };
    let of_claude = |time| Some(speed("codex", time)? / speed(many, time)?);
    Claim {
        text: "bytes/s, 1 thread, codex / claude".into(),
        bound: Bound::AtLeast,
        required: 0.33,
        aim: None,
        unit: "x",
        measured: of_claude(Race::median),
        by_min: of_claude(Race::min),
    }
}

fn claim_table(claims: &[Claim]) -> String {
    let mut text = format!(
        "{:<36} {:>9} {:>6} {:>10} {:>7}  {}\n",
        "claim", "required", "aim", "measured", "by min", "verdict"
    );
    for claim in claims {
        let show = |value: Option<f64>, unit: &str| value.map_or("-".to_owned(), |value| format!("{value:.2}{unit}"));
        let aim = claim.aim.map_or("-".to_owned(), |aim| format!("{aim}{}", claim.unit));
        let _ = writeln!(
            text,
            "{:<36} {:>9} {aim:>6} {:>10} {:>7}  {}",
            claim.text,
            format!("{} {}{}", claim.bound.sign(), claim.required, claim.unit.trim()),
            show(claim.measured, claim.unit),
            show(claim.by_min, claim.unit),
            claim.verdict()
        );
    }
    text
}

/// The peers follow different rules on what counts once, so these need not agree; but a peer that
/// counted next to nothing was not racing.
fn counted_table(races: &[Race]) -> String {
    let mut by_corpus: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for race in races.iter().filter(|race| race.contender >= Contender::Ccusage) {
        if let Some(tokens) = race.counted {
            let sampled = race.contender == Contender::Jq;
            let part = if sampled { " in its sample" } else { "" };
            let line = format!("  {:<24} {tokens:>14}{part}", race.contender.name());
            by_corpus.entry(race.corpus).or_default().push(line);
        }
    }
    let mut text = String::new();
    for (corpus, lines) in by_corpus {
        let _ = writeln!(text, "\noutput tokens found in {corpus}, each by its own rules");
        text.push_str(&lines.join("\n"));
        text.push('\n');
    }
    text
}
