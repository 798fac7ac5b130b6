//! Behaviour of the simulated machines: one scenario for each feature of the engine, small enough to be computed by
//! hand or compared with a variant.

use evenkeel_balance::{algorithms, control, health, outlier, retry, slow_start};
use evenkeel_sim::run::Failure;
use evenkeel_sim::scenario::{
    Balancing, Capacity, Cold, Deployment, Fault, Information, Load, Mode, Policy, Scenario, Server, Service, Serving,
    Step,
};
use evenkeel_sim::work::Work;
use evenkeel_sim::{Run, simulate};

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

fn service(name: &str, servers: Vec<Server>) -> Service {
    Service {
        name: name.to_string(),
        servers,
        steps: vec![Step::Work],
        work: Work::Constant(10 * MS),
        response_bytes: 0,
        balancing: Balancing::default(),
    }
}

fn servers(n: usize) -> Vec<Server> {
    (0..n).map(|i| Server::new(&i.to_string())).collect()
}

/// Scenario with one request every 10 ms, unless changed.
fn scenario(services: Vec<Service>, requests: u64) -> Scenario {
    let at_ns = (0..requests).map(|i| i * 10 * MS).collect();
    Scenario {
        services,
        machines: Vec::new(),
        load: Load::Trace { at_ns },
        link_ns: 0,
        requests,
        warm_up: 0,
        until_ns: u64::MAX,
    }
}

fn poisson(mut s: Scenario, per_second: f64) -> Scenario {
    s.load = Load::Poisson { per_second };
    s
}

fn run(s: &Scenario) -> Run {
    run_by(s, "leastconn")
}

fn run_by(s: &Scenario, algorithm: &str) -> Run {
    let run = simulate(s, &Policy::named(algorithm).unwrap(), 1);
    assert!((run.little - 1.0).abs() < 1e-3, "Little's law: {}", run.little);
    let ended = run.latency.len() + run.failed.iter().sum::<u64>();
    assert!(ended <= s.requests - s.warm_up, "{ended} ended of {}", s.requests);
    run
}

fn ms(run: &Run, q: f64) -> u64 {
    (run.quantile(q) + MS / 2) / MS
}

fn failed(run: &Run, why: Failure) -> u64 {
    run.failed[why as usize]
}

#[test]
fn a_link_is_passed_twice_and_work_done_once() {
    let mut s = scenario(vec![service("a", servers(1))], 100);
    s.link_ns = 2 * MS;
    let run = run(&s);
    assert_eq!((ms(&run, 0.0), ms(&run, 1.0), run.latency.len()), (14, 14, 100));
    assert_eq!(run.wall_ns, 99 * 10 * MS + 14 * MS);
}

#[test]
fn a_run_ends_with_its_last_moment_also_if_more_requests_are_asked_for() {
    // Regression: it waited for requests that never came, without an end.
    let mut s = scenario(vec![service("a", servers(1))], 3);
    s.requests = 1_000;
    let run = run(&s);
    assert_eq!((run.latency.len(), run.wall_ns), (3, 30 * MS));
}

#[test]
fn calls_to_other_services_are_in_flight_without_work() {
    // front: 10 ms, then back (10 ms) twice: 30 ms in total. Requests come every 11 ms, so it has three in flight.
    let mut front = service("front", servers(1));
    front.steps = vec![Step::Work, Step::Call(1), Step::Call(1)];
    let mut back = service("back", servers(3));
    back.balancing.deployment = Deployment::Sidecar;
    let mut s = scenario(vec![front, back], 1000);
    s.load = Load::Trace { at_ns: (0..1000).map(|i| i * 11 * MS).collect() };
    let run = run(&s);
    assert_eq!((ms(&run, 0.0), ms(&run, 1.0)), (30, 30));
    assert_eq!(run.services[0].servers[0].in_flight_max, 3);
    let back: Vec<u64> = run.services[1].servers.iter().map(|s| s.requests).collect();
    assert_eq!((run.services[1].requests, back.iter().max().unwrap() - back.iter().min().unwrap()), (2000, 1));
}

#[test]
fn sidecars_know_only_what_they_sent() {
    // Four callers with a balancer each herd where one central balancer does not.
    let mut front = service(
        "front",
        (0..4).map(|i| Server { serving: Serving::Unlimited, ..Server::new(&i.to_string()) }).collect(),
    );
    front.steps = vec![Step::Call(1)];
    let at = |deployment| {
        let mut back = service("back", servers(8));
        back.work = Work::Exponential { mean_ns: 10e6 };
        back.balancing.deployment = deployment;
        run(&poisson(scenario(vec![front.clone(), back], 60_000), 720.0)).mean_ns()
    };
    let (sidecars, central) = (at(Deployment::Sidecar), at(Deployment::Central { balancers: 1 }));
    assert!(sidecars > 1.1 * central, "{sidecars} with sidecars, {central} with one");
}

#[test]
fn threads_run_out_and_backlogs_overflow() {
    let server = Server { threads: 2, backlog: 1, serving: Serving::Unlimited, ..Server::new("s") };
    let mut s = scenario(vec![service("a", vec![server])], 4);
    s.load = Load::Trace { at_ns: [0, 1, 2, 3].into() };
    let run = run(&s);
    // Two at once, the third after the first, the fourth refused.
    assert_eq!((run.latency.len(), failed(&run, Failure::Refused), ms(&run, 1.0)), (3, 1, 20));
}

#[test]
fn who_waits_in_the_queue_of_the_pool_goes_first_come_first_served() {
    let server = Server { in_flight_max: 1, ..Server::new("s") };
    let mut s = scenario(vec![service("a", vec![server])], 5);
    s.services[0].balancing.queue = (3, S);
    s.load = Load::Trace { at_ns: [0, 1, 2, 3, 4].into() };
    let well = run(&s);
    assert_eq!((well.latency.len(), failed(&well, Failure::NoPick), ms(&well, 1.0)), (4, 1, 40));
    assert_eq!(well.services[0].servers[0].in_flight_max, 1);
    // And no longer than the queue's timeout.
    s.services[0].balancing.queue = (3, 15 * MS);
    let impatient = run(&s);
    assert_eq!((impatient.latency.len(), failed(&impatient, Failure::NoPick)), (2, 3));
}

#[test]
fn who_fails_at_once_draws_all_traffic_until_it_is_ejected() {
    let fault = Fault { from_ns: 0, until_ns: u64::MAX, mode: Mode::FailFast { after_ns: MS } };
    let mut all = servers(4);
    all[0].faults = vec![fault];
    let s = poisson(scenario(vec![service("a", all)], 20_000), 300.0);
    let naive = run(&s);
    assert!(failed(&naive, Failure::Failed) > 6_500, "{:?}", naive.failed);
    let mut guarded = s.clone();
    let outlier = outlier::Settings::default();
    guarded.services[0].balancing.control =
        control::Settings { outlier: Some(outlier), ..control::Settings::default() };
    let guarded = run(&guarded);
    assert!(failed(&guarded, Failure::Failed) < 200, "{:?}", guarded.failed);
    // Retries hide what ejection lets through.
    let mut retried = s;
    let on = retry::Conditions { statuses: vec![503], connect: true, reset: true, timeout: true, grpc: 0 };
    retried.services[0].balancing.retry = Some(retry::Settings { on, budget: 1.0, ..retry::Settings::default() });
    let retried = run(&retried);
    assert!(failed(&retried, Failure::Failed) < 200 && retried.services[0].retries > 4_000, "{:?}", retried.failed);
}

#[test]
fn a_black_hole_is_left_by_timeouts_and_by_checks() {
    let mut all = servers(4);
    all[0].faults = vec![Fault { from_ns: S, until_ns: 4 * S, mode: Mode::BlackHole }];
    let mut s = poisson(scenario(vec![service("a", all)], 3_000), 200.0);
    s.services[0].balancing.timeout_ns = 500 * MS;
    let timed_out = run_by(&s, "round_robin");
    let lost = failed(&timed_out, Failure::TimedOut);
    assert!((120..180).contains(&lost), "a quarter of 600 requests, but {lost}");
    assert_eq!(timed_out.latency.len() + lost, 3_000);
    s.services[0].balancing.control =
        control::Settings { health: Some(health::Settings::default()), ..control::Settings::default() };
    s.services[0].balancing.check_every_ns = 100 * MS;
    let checked = run_by(&s, "round_robin");
    let lost = failed(&checked, Failure::TimedOut);
    assert!((5..40).contains(&lost), "three checks of 100 ms, and {lost} lost");
    assert!(checked.services[0].servers[0].requests > 400, "and used again afterwards");
}

#[test]
fn answers_share_the_bandwidth() {
    let server = Server { serving: Serving::Unlimited, bandwidth: 1e6, ..Server::new("s") };
    let mut s = scenario(vec![service("a", vec![server])], 3);
    s.services[0].response_bytes = 20_000; // 20 ms each
    s.load = Load::Trace { at_ns: [0, 1, 2].into() };
    let run = run(&s);
    assert_eq!((ms(&run, 0.0), ms(&run, 1.0)), (30, 70));
}

#[test]
fn stalls_and_antagonists_take_the_share_they_are_said_to_take() {
    let stalls = Capacity::Stalls { every: Work::Constant(80 * MS), length: Work::Constant(20 * MS), speed: 0.5 };
    let antagonist = Capacity::Antagonist { states: vec![(0.5, 0.5), (1.0, 0.5)], mean_ns: 50 * MS };
    for (capacity, share) in [(stalls, 0.9), (antagonist, 0.75)] {
        let server = Server { capacity: vec![capacity.clone()], ..Server::new("s") };
        let mut s = scenario(vec![service("a", vec![server])], 5_000);
        s.load = Load::Closed { users: 4, think: Work::Constant(0) };
        let run = run(&s);
        let done = run.throughput() * 0.010;
        assert!((done / share - 1.0).abs() < 0.03, "{capacity:?}: {done} of its cores, not {share}");
        assert!((run.services[0].servers[0].capacity - share).abs() < 1e-9);
    }
}

#[test]
fn a_neighbour_takes_less_from_a_server_with_many_requests() {
    for (users, share) in [(1, 0.5 + 0.5 / 3.0), (4, 0.5 + 0.5 * 4.0 / 6.0)] {
        let capacity = vec![Capacity::Neighbour { threads: 2, busy_ns: 50 * MS, idle_ns: 50 * MS }];
        let serving = Serving::Sharing { cores: 1.0 };
        let server = Server { capacity, serving, threads: users, backlog: 100, ..Server::new("s") };
        let mut s = scenario(vec![service("a", vec![server])], 5_000);
        s.load = Load::Closed { users, think: Work::Constant(0) };
        let run = run(&s);
        let done = run.throughput() * 0.010;
        assert!((done / share - 1.0).abs() < 0.05, "{users} users: {done} of its core, not {share}");
        assert!((run.services[0].servers[0].capacity - share).abs() < 1e-9);
    }
}

#[test]
fn servers_of_one_machine_share_its_cores() {
    // Two services on one core: each request works 10 ms in each, and four users keep it busy.
    let on = |name: &str| vec![Server { machine: Some(0), ..Server::new(name) }];
    let mut front = service("front", on("f"));
    front.steps = vec![Step::Work, Step::Call(1)];
    let mut s = scenario(vec![front, service("back", on("b"))], 1000);
    s.load = Load::Closed { users: 4, think: Work::Constant(0) };
    let of = |s: &Scenario| run(s).throughput();
    s.machines = vec![1.0];
    assert!((of(&s) - 50.0).abs() < 1.0, "{}", of(&s));
    s.machines = vec![2.0];
    assert!((of(&s) - 100.0).abs() < 1.0, "{}", of(&s));
}

#[test]
fn a_newcomer_is_known_after_the_lag_and_ramps() {
    let mut all = servers(4);
    all[3].joins_ns = 2 * S;
    let share = |slow_start, lag_ns, algorithm| {
        let mut s = poisson(scenario(vec![service("a", all.clone())], 0), 200.0);
        (s.requests, s.until_ns) = (u64::MAX, 4 * S);
        s.services[0].balancing.lag_ns = lag_ns;
        s.services[0].balancing.control = control::Settings { slow_start, ..control::Settings::default() };
        let run = simulate(&s, &Policy::named(algorithm).unwrap(), 1);
        let series = &run.services[0].series;
        let before: u32 = series.requests[3].iter().take((2 * S / series.step_ns) as usize).sum();
        assert_eq!(before, 0, "it was not there");
        run.services[0].servers[3].requests
    };
    let ramp = slow_start::Settings { window_ns: 2 * S, aggression: 1.0, min_weight: 0.1 };
    let (at_once, ramped) = (share(None, 0, "round_robin"), share(Some(ramp), 0, "round_robin"));
    assert!((75..125).contains(&at_once), "a quarter of 400, but {at_once}");
    assert!((40..75).contains(&ramped), "about half of that, but {ramped}");
    assert!(share(None, S, "round_robin") < at_once, "a balancer that hears of it later");
}

#[test]
fn the_cold_are_slow() {
    let server = Server { cold: Some(Cold { speed: 0.5, window_ns: S }), ..Server::new("s") };
    let mut s = scenario(vec![service("a", vec![server])], 400);
    s.load = Load::Closed { users: 1, think: Work::Constant(0) };
    let run = run(&s);
    assert_eq!((ms(&run, 0.0), ms(&run, 1.0)), (10, 20));
    // Speed rises linearly from 0.5 to 1 within a second: 0.75 s of work are done in it.
    let series = &run.services[0].series;
    let first: u32 = series.requests[0].iter().take((S / series.step_ns) as usize).sum();
    assert!((73..=77).contains(&first), "{first}");
}

#[test]
fn probes_bring_news_cost_work_and_get_lost() {
    let with = |information| {
        let mut s = poisson(scenario(vec![service("a", servers(16))], 40_000), 1200.0);
        s.link_ns = MS / 10;
        s.services[0].balancing.deployment = Deployment::Central { balancers: 8 };
        s.services[0].balancing.information = information;
        run_by(&s, "prequal")
    };
    let probes = Information { probes: true, ..Information::default() };
    let (blind, seeing) = (with(Information::default()), with(probes));
    assert_eq!(blind.services[0].probes, 0);
    let sent = seeing.services[0].probes as f64 / seeing.services[0].requests as f64;
    assert!((sent - 3.0).abs() < 0.1, "{sent} probes a request");
    assert!(seeing.mean_ns() < 0.97 * blind.mean_ns(), "{} against {}", seeing.mean_ns(), blind.mean_ns());
    let costly = with(Information { probe_work_ns: MS / 2, ..probes });
    assert!(costly.mean_ns() > 1.05 * seeing.mean_ns(), "{} against {}", costly.mean_ns(), seeing.mean_ns());
    let lossy = with(Information { probe_loss: 0.9, ..probes });
    assert!(lossy.mean_ns() > 1.01 * seeing.mean_ns(), "{} against {}", lossy.mean_ns(), seeing.mean_ns());
}

#[test]
fn a_balancer_beside_a_caller_takes_its_work_from_that_caller() {
    // front: 5 ms at 80 requests per second is 0.4 of a core; with 4 ms per request of a sidecar it is 0.72.
    let with = |deployment, probes, information: Information| {
        let mut front = service("front", servers(1));
        (front.steps, front.work) = (vec![Step::Work, Step::Call(1)], Work::Constant(5 * MS));
        front.servers[0].serving = Serving::Sharing { cores: 1.0 };
        let mut back = service("back", servers(3));
        back.balancing = Balancing { deployment, information: Information { probes, ..information }, ..back.balancing };
        let mut s = poisson(scenario(vec![front, back], 20_000), 80.0);
        s.services[1].work = Work::Constant(MS);
        s.link_ns = MS / 100;
        run(&s).mean_ns()
    };
    let (beside, apart) = (Deployment::Sidecar, Deployment::Central { balancers: 1 });
    let tries = Information { balancer_work_ns: 4 * MS, ..Information::default() };
    let alone = with(beside, false, Information::default());
    assert_eq!(with(apart, false, tries), with(apart, false, Information::default()), "another processor's time");
    assert!(with(beside, false, tries) > 1.2 * alone);
    let probes = Information { balancer_probe_work_ns: 2 * MS, ..Information::default() };
    assert_eq!(with(beside, false, probes), alone, "none is sent");
    assert!(with(beside, true, probes) > 1.1 * alone, "two for each request");
}

#[test]
fn policies_share_the_workload() {
    // With one server all policies are equal: random draws depend on the request, not on the policy.
    let s = poisson(scenario(vec![service("a", servers(1))], 5_000), 80.0);
    let of = |algorithm| run_by(&s, algorithm).latency_sum_ns;
    let mut keyless = algorithms::ALL.iter().filter(|a| !a.needs.key);
    let leastconn = of("leastconn");
    assert!(keyless.all(|a| of(a.name) == leastconn));
}
