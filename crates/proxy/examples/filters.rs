//! A program that embeds the proxy, with ten filters of its own that do nothing on the routes of a listener called `filtered`. By it
//! `scripts/instructions.py` counts what filters cost: `filters run -c FILE`.

use evenkeel_proxy::row::{Build, Key, LooksAt, Row, Stage};
use evenkeel_proxy::{Filter, Pure, Secured, Server, Step};

struct Nothing;

impl Filter for Nothing {
    type State = ();
}

impl Pure for Nothing {}

fn nothing(build: &Build<'_>) -> Option<Step> {
    (&*build.listener.name == "filtered").then(|| Box::new(Nothing) as _)
}

const NOTHING: Row = Row {
    name: "nothing",
    stage: Stage::Route,
    key: Key::Always,
    summary: "Does nothing.",
    looks_at: LooksAt { responses: true, bodies: false, open_bodies: false, copied_bodies: false },
    resources: &[],
    build: nothing,
};

static TEN: [Row; 10] = [NOTHING; 10];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    evenkeel_proxy::table::add(&TEN);
    let path = std::env::args().nth(3).ok_or("usage: filters run -c FILE")?;
    let outcome = evenkeel_config::parse_str(&path, &std::fs::read_to_string(&path)?, &|_| None);
    let plan = outcome.plan.ok_or_else(|| evenkeel_config::render_text(&outcome.diagnostics, false))?;
    let _server = Server::start_secured(plan, Secured::default())?;
    loop {
        std::thread::park();
    }
}
