//! Contract of every source, over their registry: a source is named as its key, is written as it is read, and fails without taking
//! endpoints away.

use crate::registries::Follower;
use evenkeel_config::plan::Source;
use evenkeel_config::tables::{Absent, Key, Kind};
use evenkeel_config::{Plan, parse_str};

/// Tables of `[discovery]` by which nothing is reached, whichever keys a server has.
const NOWHERE: [&str; 4] =
    ["url = 'http://127.0.0.1:1'", "urls = ['http://127.0.0.1:1']", "kubeconfig = '/nowhere'", ""];

/// Settings of a source as TOML: those that it requires, and a port where it cannot do without.
fn settings(key: &Key) -> Vec<String> {
    let Kind::Table(table) = key.kind else { return vec!["'/nowhere/list.json'".to_owned()] };
    let required = table.keys.iter().filter_map(|key| match key.absent {
        Absent::Required(example) => Some(format!("{} = {example}", key.name)),
        Absent::Default(_) | Absent::Means(_) => None,
    });
    let required: Vec<String> = required.collect();
    let with_port = [&required[..], &["port = 80".to_owned()]].concat();
    [required, with_port].map(|keys| format!("{{ {} }}", keys.join(", "))).to_vec()
}

/// Plan with a pool of one endpoint that has this source, too.
fn plan(key: &Key) -> Plan {
    let tried = settings(key).into_iter().flat_map(|settings| NOWHERE.map(|server| (settings.clone(), server)));
    let plan = |(settings, server): (String, &str)| {
        let server = if server.is_empty() { String::new() } else { format!("[discovery.{}]\n{server}\n", key.name) };
        let text = format!(
            "[resolver]\nnameservers = ['127.0.0.1:1']\n{server}[listener.web]\nbind = ['127.0.0.1:1']\npool = 'p0'\n\
             [pool.p0]\nendpoints = ['10.0.0.1:80']\ndiscover = {{ {} = {settings} }}\n",
            key.name
        );
        parse_str("test.toml", &text, &|_| None).plan
    };
    tried.filter_map(plan).next().unwrap_or_else(|| panic!("{}: its required keys make no plan", key.name))
}

fn source(plan: &Plan) -> &Source {
    &plan.pools[0].discover.as_ref().expect("the pool has a source").source
}

#[test]
fn each_source_is_named_as_its_key_and_written_as_it_is_read() {
    for key in Source::keys() {
        let plan = plan(key);
        let of = source(&plan);
        assert_eq!(of.name(), key.name);
        let shown = of.to_string();
        let what = shown.strip_prefix(key.name).and_then(|rest| rest.strip_prefix(':'));
        assert!(what.is_some_and(|what| !what.is_empty()), "{shown}");
        let again = parse_str("again.toml", &plan.to_toml(), &|_| None).plan.expect("it was written by a plan");
        assert_eq!(source(&again), of);
    }
}

#[tokio::test]
async fn each_source_that_reaches_nothing_reports_it_and_takes_no_endpoint_away() {
    for key in Source::keys() {
        let plan = plan(key);
        let follower = Follower::in_plan(&plan).await;
        follower.counts("failed", 1.0).await;
        assert_eq!(follower.names(), ["10.0.0.1:80"], "{}", source(&plan));
    }
}
