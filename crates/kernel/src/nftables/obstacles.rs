//! Rules of others that keep a translated connection from working: a policy that drops forwarded packets, connection
//! tracking that is off, and a zone of it on a single side. Rules of nftables are read, with rules of `iptables-nft`;
//! rules of `iptables-legacy` cannot be read.

use super::conditions::{Conditions, Effect, Rule};
use super::family::Family;
use super::listing::{self, Chain};
use super::ruleset::families;
use super::transaction::{INET, IPV4, IPV6};
use crate::driver::{Fault, Lack};
use crate::service::Service;
use std::collections::{BTreeSet, HashMap};
use std::fs;

/// Hooks of the kernel, `NF_INET_*`.
const PRE_ROUTING: u32 = 0;
const FORWARD: u32 = 2;
const LOCAL_OUT: u32 = 3;

/// Priority of connection tracking: chains before it can switch it off, and choose a zone.
const CONNTRACK: i32 = -200;

/// Returns the obstacles for services, each with table, chain and remedy. `own`: name of the table that is ours.
///
/// # Errors
/// The kernel refuses to list rules.
pub fn obstacles(own: &str, services: &[Service]) -> Result<Vec<Lack>, Fault> {
    let is_needed = |family: u8| {
        let has = |of: Family| services.iter().any(|service| families(service).any(|family| family == of));
        match family {
            INET => !services.is_empty(),
            IPV4 => has(Family::V4),
            IPV6 => has(Family::V6),
            _ => false,
        }
    };
    let mut chains = listing::chains()?;
    chains.retain(|chain| is_needed(chain.family) && !(chain.family == INET && chain.table == own));
    let mut found = forwarding(&chains)?;
    found.extend(tracking(&chains, services)?);
    found.extend([("iptables", Family::V4), ("ip6tables", Family::V6)].into_iter().filter_map(|(program, family)| {
        let path = format!("/proc/thread-self/net/{}_tables_names", if family == Family::V4 { "ip" } else { "ip6" });
        let is_needed = services.iter().any(|service| families(service).any(|of| of == family));
        legacy(program, &fs::read_to_string(path).unwrap_or_default()).filter(|_| is_needed)
    }));
    Ok(found)
}

/// Chains that drop forwarded packets which no rule accepts.
fn forwarding(chains: &[Chain]) -> Result<Vec<Lack>, Fault> {
    let mut found = Vec::new();
    for chain in chains.iter().filter(|chain| chain.is_at(FORWARD) && chain.drops) {
        let rules = listing::rules(chain.family, &chain.table)?;
        if rules.iter().any(|rule| rule.effect == Effect::AcceptsTranslated) {
            continue;
        }
        let Chain { table, name, .. } = chain;
        let place = chain.place();
        let problem = format!(
            "{place} drops forwarded packets that none of its rules accepts (policy drop), also those between clients and \
             endpoints"
        );
        // Docker calls this chain before its own, and leaves it to others.
        let user = chains.iter().find(|it| it.family == chain.family && it.table == *table && it.name == "DOCKER-USER");
        let first = user.map_or(name, |user| &user.name);
        let help = match (chain.family, table.as_str(), name.as_str()) {
            (IPV4, "filter", "FORWARD") => {
                format!("accept them: iptables -I {first} -m conntrack --ctstate DNAT -j ACCEPT")
            }
            (IPV6, "filter", "FORWARD") => {
                format!("accept them: ip6tables -I {first} -m conntrack --ctstate DNAT -j ACCEPT")
            }
            _ => format!("accept them: nft insert rule {} {table} {name} ct status dnat accept", chain.family_name()),
        };
        found.push(Lack::warning(problem, help));
    }
    Ok(found)
}

/// Rules that switch connection tracking off, or set a zone that no other rule sets.
fn tracking(chains: &[Chain], services: &[Service]) -> Result<Vec<Lack>, Fault> {
    let is_early = |chain: &&Chain| {
        (chain.is_at(PRE_ROUTING) || chain.is_at(LOCAL_OUT)) && chain.priority.is_some_and(|at| at < CONNTRACK)
    };
    let tables: BTreeSet<(u8, &str)> =
        chains.iter().filter(is_early).map(|chain| (chain.family, chain.table.as_str())).collect();
    let mut rules = Vec::new();
    for (family, table) in tables {
        rules.extend(listing::rules(family, table)?);
    }
    let mut zones: HashMap<u16, u32> = HashMap::new();
    for rule in &rules {
        if let Effect::Zone { number, .. } = rule.effect {
            *zones.entry(number).or_default() += 1;
        }
    }
    let concerns = |rule: &&Rule| services.iter().any(|service| rule.conditions.may_match(service));
    let lack = |rule: &Rule| {
        let place = rule.place();
        match rule.effect {
            Effect::NoTracking => Some(Lack::warning(
                format!(
                    "a rule of {place} switches connection tracking off (notrack): packets that it matches are not translated"
                ),
                format!(
                    "accept packets to virtual addresses and from endpoints before it, as by: nft insert rule {} {} {} {} accept",
                    rule.family_name(),
                    rule.table,
                    rule.chain,
                    example(services, rule.family)
                ),
            )),
            Effect::Zone { number, is_one_way }
                if zones.get(&number) == Some(&1) && (is_one_way || rule.conditions != Conditions::default()) =>
            {
                Some(Lack::warning(
                    format!(
                        "a rule of {place} puts packets that it matches into zone {number} of connection tracking, and no \
                         other rule does: answers in another zone are not translated back"
                    ),
                    "set the zone for packets of clients and of endpoints, or for neither",
                ))
            }
            _ => None,
        }
    };
    let mut found: Vec<Lack> = rules.iter().filter(concerns).filter_map(lack).collect();
    // Rules of a chain that differ by port alone have the same text.
    found.dedup();
    Ok(found)
}

/// Condition of a rule that leaves a virtual address out.
fn example(services: &[Service], family: u8) -> String {
    let is_of = |ip: &std::net::IpAddr| match family {
        IPV4 => ip.is_ipv4(),
        IPV6 => ip.is_ipv6(),
        _ => true,
    };
    let addr = services.iter().flat_map(|service| &service.addrs).map(|addr| addr.ip()).find(is_of);
    let word = if addr.is_some_and(|addr| addr.is_ipv6()) { "ip6" } else { "ip" };
    format!("{word} daddr {}", addr.map(|addr| addr.to_string()).unwrap_or_default())
}

/// Tables of `iptables-legacy` that may be an obstacle. `names`: the tables that the kernel has, a line each.
fn legacy(program: &str, names: &str) -> Option<Lack> {
    let mut tables: Vec<&str> = names.lines().filter(|name| matches!(*name, "filter" | "raw")).collect();
    tables.sort_unstable();
    let [first, ..] = tables[..] else { return None };
    let problem = format!(
        "{program}-legacy has rules in {}, which cannot be read: they may drop forwarded packets or switch connection tracking off",
        tables.join(" and ")
    );
    Some(Lack::warning(problem, format!("look at them: {program}-legacy -t {first} -S")))
}

#[cfg(test)]
mod tests {
    use super::super::transaction::tests::in_namespace;
    use super::*;
    use crate::service::{Policy, Source, Transport};
    use std::process::Command;
    use std::time::Duration;

    fn service(transport: Transport, addr: &str) -> Service {
        Service {
            name: "web".into(),
            pool: "web".into(),
            transport,
            addrs: vec![addr.parse().expect("an address")],
            policy: Policy::Random { draws: 1 },
            source: Source::Own,
            affinity: None,
            idle: Duration::from_secs(3600),
            members: [].into(),
        }
    }

    fn run(command: &str) {
        let words: Vec<&str> = command.split(' ').collect();
        let output = Command::new(words[0]).args(&words[1..]).output().expect("it is installed");
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Obstacles of a service over TCP at 192.0.2.10:80 after these commands.
    fn after(commands: &[&str]) -> Vec<Lack> {
        run("nft flush ruleset");
        commands.iter().for_each(|command| run(command));
        let services = [service(Transport::Tcp, "192.0.2.10:80")];
        obstacles("evenkeel", &services).expect("rules can be listed")
    }

    #[track_caller]
    fn names(found: &[Lack], problem: &str, help: &str) {
        let [lack] = found else { panic!("{found:?}") };
        assert!(lack.is_warning && lack.problem.contains(problem) && lack.help.contains(help), "{lack:?}");
    }

    #[test]
    fn a_policy_that_drops_what_is_forwarded_is_named_until_a_rule_accepts_it() {
        in_namespace(|| {
            let chain = "nft add chain inet firewall passing { type filter hook forward priority 0 ; policy drop ; }";
            let fix = "nft insert rule inet firewall passing ct status dnat accept";
            names(&after(&["nft add table inet firewall", chain]), "chain passing of table inet firewall", fix);
            assert_eq!(after(&["nft add table inet firewall", chain, fix]), []);
            let six = chain.replace("inet", "ip6");
            assert_eq!(after(&["nft add table ip6 firewall", &six]), [], "the service has no address of IPv6");
            let open = chain.replace("policy drop", "policy accept");
            assert_eq!(after(&["nft add table inet firewall", &open]), []);
        });
    }

    #[test]
    fn the_policy_of_docker_is_named_with_its_chain_for_users() {
        in_namespace(|| {
            if !evenkeel_peers::installed(&["iptables-nft"]) {
                return;
            }
            let docker = ["iptables-nft -N DOCKER-USER", "iptables-nft -A FORWARD -j DOCKER-USER"];
            let established = "iptables-nft -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT";
            let drop = "iptables-nft -P FORWARD DROP";
            let found = after(&[docker[0], docker[1], established, drop]);
            let fix = "-I DOCKER-USER -m conntrack --ctstate DNAT -j ACCEPT";
            names(&found, "chain FORWARD of table ip filter", fix);
            let fixed = format!("iptables-nft {fix}");
            assert_eq!(after(&[docker[0], docker[1], established, drop, &fixed]), []);
            let untracked = "iptables-nft -t raw -A PREROUTING -p tcp --dport 80 -j CT --notrack";
            names(
                &after(&[untracked]),
                "chain PREROUTING of table ip raw",
                "nft insert rule ip raw PREROUTING ip daddr",
            );
        });
    }

    #[test]
    fn rules_that_switch_tracking_off_are_named_if_they_may_match() {
        in_namespace(|| {
            let chain = "nft add chain inet early pre { type filter hook prerouting priority -300 ; }";
            let with = |rule: &str| {
                after(&["nft add table inet early", chain, &format!("nft add rule inet early pre {rule}")])
            };
            for matching in [
                "notrack",
                "tcp dport 80 notrack",
                "tcp sport 8080 notrack",
                "ip daddr 192.0.2.10 notrack",
                "ip saddr 10.0.0.0/8 notrack",
                "iifname eth0 notrack",
                "tcp dport { 80, 443 } notrack",
            ] {
                let fix = "nft insert rule inet early pre ip daddr 192.0.2.10 accept";
                names(&with(matching), "chain pre of table inet early switches connection tracking off", fix);
            }
            for other in ["udp dport 53 notrack", "iifname lo notrack", "tcp dport 53 notrack", "tcp dport 80 accept"] {
                assert_eq!(with(other), [], "{other}");
            }
            // Connection tracking has come first.
            let late = chain.replace("-300", "0");
            assert_eq!(after(&["nft add table inet early", &late, "nft add rule inet early pre notrack"]), []);
        });
    }

    #[test]
    fn a_zone_on_one_side_is_named() {
        in_namespace(|| {
            let chain = "nft add chain inet early pre { type filter hook prerouting priority -300 ; }";
            let with = |rules: &[&str]| {
                let rules: Vec<String> =
                    rules.iter().map(|rule| format!("nft add rule inet early pre {rule}")).collect();
                let commands = ["nft add table inet early", chain];
                after(&commands.into_iter().chain(rules.iter().map(String::as_str)).collect::<Vec<_>>())
            };
            let one = "iifname eth0 ct zone set 7";
            names(
                &with(&[one]),
                "chain pre of table inet early puts packets that it matches into zone 7",
                "or for neither",
            );
            names(&with(&["ct original zone set 7"]), "zone 7", "or for neither");
            assert_eq!(with(&[one, "iifname eth1 ct zone set 7"]), []);
            assert_eq!(with(&["ct zone set 7"]), []);
        });
    }

    #[test]
    fn tables_of_legacy_programs_are_said_to_be_out_of_sight() {
        let lack = legacy("iptables", "nat\nraw\nfilter\n").expect("two of them matter");
        assert!(lack.is_warning && lack.problem.contains("iptables-legacy has rules in filter and raw"), "{lack:?}");
        assert_eq!(lack.help, "look at them: iptables-legacy -t filter -S");
        assert_eq!(legacy("iptables", "nat\nmangle\n"), None);
    }
}
