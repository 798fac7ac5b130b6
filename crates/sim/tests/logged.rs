//! Logs of runs compared with their results.

use evenkeel_balance::{control, retry};
use evenkeel_sim::run::Failure;
use evenkeel_sim::scenario::{Balancing, Deployment, Load, Policy, Scenario, Server, Service, Step};
use evenkeel_sim::work::Work;
use evenkeel_sim::{Logged, Run, simulate, simulate_logged};

const MS: u64 = 1_000_000;

fn scenario(servers: Vec<Server>, balancing: Balancing, per_second: f64) -> Scenario {
    let service = Service {
        name: "web".to_string(),
        servers,
        steps: vec![Step::Work],
        work: Work::Exponential { mean_ns: 10.0 * MS as f64 },
        response_bytes: 0,
        balancing,
    };
    Scenario {
        services: vec![service],
        machines: Vec::new(),
        load: Load::Poisson { per_second },
        link_ns: 0,
        requests: 5_000,
        warm_up: 0,
        until_ns: u64::MAX,
    }
}

fn servers(count: usize) -> Vec<Server> {
    (0..count).map(|at| Server::new(&at.to_string())).collect()
}

fn logged(scenario: &Scenario, algorithm: &str) -> (Run, Vec<Logged>) {
    let policy = Policy::named(algorithm).unwrap();
    let (run, log) = simulate_logged(scenario, &policy, 0, 7);
    assert_eq!(run.events, simulate(scenario, &policy, 7).events, "a log changes nothing");
    assert_eq!(log.len() as u64, scenario.requests);
    assert!(log.is_sorted_by_key(|request| request.arrived_ns));
    (run, log)
}

#[test]
fn a_log_has_the_latencies_and_shares_of_the_run() {
    let scenario = scenario(servers(3), Balancing::default(), 200.0);
    for algorithm in ["round_robin", "leastconn", "peak_ewma"] {
        let (run, log) = logged(&scenario, algorithm);
        let total: u128 = log.iter().map(|request| u128::from(request.total_ns().unwrap())).sum();
        assert_eq!(total, run.latency_sum_ns, "{algorithm}");
        for (at, server) in (0..).zip(&run.services[0].servers) {
            let tries = log.iter().flat_map(|request| &request.tries);
            assert_eq!(tries.filter(|of| of.server == at).count() as u64, server.requests, "{algorithm}");
        }
        for request in &log {
            let [only] = &request.tries[..] else { panic!("{request:?}") };
            assert_eq!((only.took_ns, request.queue_ns(), request.failure), (request.total_ns(), 0, None));
            // Servers have one core, so no request is faster than its work.
            assert!(request.work_ns > 0 && only.took_ns.unwrap() + 1 >= request.work_ns, "{request:?}");
        }
    }
}

#[test]
fn a_log_has_every_try_of_a_request() {
    let mut servers = servers(3);
    servers.iter_mut().for_each(|server| (server.threads, server.backlog) = (1, 0));
    let retry = retry::Settings { attempts: 2, budget: 10.0, ..retry::Settings::default() };
    let mut balancing = Balancing { retry: Some(retry), ..Balancing::default() };
    balancing.timeout_ns = 15 * MS;
    let (run, log) = logged(&scenario(servers, balancing, 200.0), "random");
    let retries = log.iter().map(|request| request.tries.len() as u64 - 1).sum::<u64>();
    assert_eq!(retries, run.services[0].retries);
    assert!(retries > 100, "{retries}");
    for failure in [Failure::Refused, Failure::TimedOut] {
        let failed = log.iter().filter(|request| request.failure == Some(failure)).count() as u64;
        assert_eq!(failed, run.failed[failure as usize], "{failure:?}");
    }
    let mut timed_out = 0;
    for request in &log {
        let last = request.tries.last().unwrap();
        assert_eq!(last.began_ns + last.took_ns.unwrap(), request.ended_ns.unwrap(), "{request:?}");
        assert_eq!(last.failure, request.failure);
        for of in &request.tries {
            timed_out += usize::from(of.failure == Some(Failure::TimedOut));
            assert_eq!(of.failure == Some(Failure::TimedOut), of.took_ns == Some(15 * MS), "{request:?}");
        }
    }
    assert!(timed_out > 100, "{timed_out}");
}

#[test]
fn a_log_has_the_time_in_the_queue_and_the_balancer() {
    let mut servers = servers(2);
    servers.iter_mut().for_each(|server| server.in_flight_max = 1);
    let balancing = Balancing {
        control: control::Settings::default(),
        queue: (1_000, u64::MAX / 2),
        deployment: Deployment::Central { balancers: 2 },
        ..Balancing::default()
    };
    let (run, log) = logged(&scenario(servers, balancing, 300.0), "leastconn");
    assert_eq!(run.failed, [0; 4]);
    let queued = log.iter().filter(|request| request.queue_ns() > 0).count();
    assert!(queued > 100, "{queued}");
    assert!((0..2).all(|at| log.iter().filter(|request| request.balancer == at).count() > 2_000));
}

#[test]
fn a_log_has_the_number_of_servers_that_an_explored_request_was_drawn_from() {
    let explored = Balancing { explore: 0.1, ..Balancing::default() };
    let (_, log) = logged(&scenario(servers(4), explored, 200.0), "first");
    let drawn: Vec<&Logged> = log.iter().filter(|request| request.drawn_from > 0).collect();
    // Binomial: 500 with a standard deviation of 21.2; five of them.
    assert!((394..=606).contains(&drawn.len()), "{}", drawn.len());
    assert!(drawn.iter().all(|request| request.drawn_from == 4));
    for at in 0..4 {
        let count = drawn.iter().filter(|request| request.tries[0].server == at).count();
        assert!(count * 6 > drawn.len(), "{at}: {count}");
    }
}

#[test]
fn a_log_may_be_of_a_service_that_others_call() {
    let mut front = scenario(servers(1), Balancing::default(), 50.0);
    let mut shop = front.services[0].clone();
    shop.servers = servers(2);
    front.services[0].steps = vec![Step::Call(1), Step::Work, Step::Call(1)];
    front.services.push(shop);
    let (run, log) = simulate_logged(&front, &Policy::named("round_robin").unwrap(), 1, 7);
    assert_eq!(log.len() as u64, 2 * front.requests);
    let to_first = log.iter().filter(|request| request.tries[0].server == 0).count() as u64;
    assert_eq!(to_first, run.services[1].servers[0].requests);
    assert!(log.iter().all(|request| request.ended_ns.is_some()));
}
