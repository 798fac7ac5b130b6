//! Answers as the tools of administrators print them. A row for each question: the tool, its arguments, and texts that must be
//! (or, after `!`, must not be) in its output.

use evenkeel_peers::installed;
use super::DnsSetup;
use crate::support::text;
use std::process::Command;

/// Tool, question, and what is in its output.
type Case = (&'static str, &'static str, &'static [&'static str]);

const CASES: &[Case] = &[
    // Types of a name with addresses.
    ("dig", "www.gslb.example.com A", &["status: NOERROR", "flags: qr aa rd;", "ANSWER: 2,", "IN A 10.9.0."]),
    ("dig", "www.gslb.example.com AAAA", &["status: NOERROR", "ANSWER: 1,", "IN AAAA 2001:db8::9"]),
    ("dig", "www.gslb.example.com", &["ANSWER: 2,", "5 IN A 10.9.0."]),
    ("kdig", "www.gslb.example.com A", &["status: NOERROR", "Flags: qr aa rd;", "ANSWER: 2;", "IN A 10.9.0."]),
    ("kdig", "www.gslb.example.com AAAA", &["status: NOERROR", "ANSWER: 1;", "IN AAAA 2001:db8::9"]),
    ("dig", "four.gslb.example.com A", &["ANSWER: 3,", "10.9.0.1", "10.9.0.2", "10.9.0.3"]),
    ("dig", "slow.gslb.example.com A", &["60 IN A 10.9.0."]),
    ("dig", "never.gslb.example.com A", &["0 IN A 10.9.0."]),
    ("dig", "only4.gslb.example.com AAAA", &["status: NOERROR", "ANSWER: 0,", "AUTHORITY: 1,", "SOA"]),
    ("dig", "first.gslb.example.com A", &["ANSWER: 1,", "10.9.1.1"]),
    ("dig", "hash.gslb.example.com A", &["ANSWER: 1,", "10.9.2."]),
    // Types that it does not have.
    ("dig", "www.gslb.example.com MX", &["status: NOERROR", "ANSWER: 0,", "AUTHORITY: 1,", "5 IN SOA ns1.gslb.example.com."]),
    ("dig", "www.gslb.example.com TXT", &["status: NOERROR", "ANSWER: 0,", "SOA"]),
    ("dig", "www.gslb.example.com HTTPS", &["status: NOERROR", "ANSWER: 0,", "SOA"]),
    ("dig", "www.gslb.example.com SRV", &["status: NOERROR", "ANSWER: 0,", "SOA"]),
    ("dig", "www.gslb.example.com CNAME", &["status: NOERROR", "ANSWER: 0,", "SOA"]),
    ("dig", "www.gslb.example.com NS", &["status: NOERROR", "ANSWER: 0,", "SOA"]),
    ("dig", "www.gslb.example.com SOA", &["status: NOERROR", "ANSWER: 0,", "AUTHORITY: 1,"]),
    ("dig", "www.gslb.example.com DS", &["status: NOERROR", "ANSWER: 0,", "SOA"]),
    ("dig", "www.gslb.example.com TYPE65000", &["status: NOERROR", "ANSWER: 0,", "SOA"]),
    ("kdig", "www.gslb.example.com CAA", &["status: NOERROR", "ANSWER: 0;", "SOA"]),
    // The zone itself.
    ("dig", "gslb.example.com SOA", &["ANSWER: 1,", "flags: qr aa rd;", "5 IN SOA ns1.gslb.example.com. ops.example.com. 7 3600 600 86400 5"]),
    ("kdig", "gslb.example.com SOA", &["ANSWER: 1;", "SOA ns1.gslb.example.com. ops.example.com. 7"]),
    ("dig", "gslb.example.com NS", &["ANSWER: 2,", "ns1.gslb.example.com.", "ns.elsewhere.example.", "A 127.0.0.53", "AAAA ::53"]),
    ("dig", "gslb.example.com A", &["ANSWER: 2,", "10.9.2."]),
    ("dig", "gslb.example.com MX", &["status: NOERROR", "ANSWER: 0,", "SOA"]),
    ("dig", "ns1.gslb.example.com A", &["ANSWER: 1,", "A 127.0.0.53"]),
    ("dig", "ns1.gslb.example.com AAAA", &["ANSWER: 1,", "AAAA ::53"]),
    ("dig", "ns1.gslb.example.com TXT", &["status: NOERROR", "ANSWER: 0,"]),
    // Names that are not there, and names with names below them.
    ("dig", "nothing.gslb.example.com A", &["status: NXDOMAIN", "flags: qr aa rd;", "AUTHORITY: 1,", "5 IN SOA"]),
    ("kdig", "nothing.gslb.example.com A", &["status: NXDOMAIN", "Flags: qr aa rd;", "SOA"]),
    ("dig", "below.www.gslb.example.com A", &["status: NXDOMAIN"]),
    ("dig", "_tcp.gslb.example.com A", &["status: NOERROR", "ANSWER: 0,", "SOA"]),
    ("dig", "_udp.gslb.example.com A", &["status: NXDOMAIN"]),
    ("dig", "a.b.c.d.e.f.gslb.example.com AAAA", &["status: NXDOMAIN"]),
    // Outside the zone.
    ("dig", "example.com A", &["status: REFUSED", "flags: qr rd;", "ANSWER: 0,", "AUTHORITY: 0,"]),
    ("dig", "www.example.org A", &["status: REFUSED"]),
    ("dig", "xgslb.example.com A", &["status: REFUSED"]),
    ("dig", ". NS", &["status: REFUSED"]),
    ("dig", "com NS", &["status: REFUSED"]),
    ("kdig", "www.example.org A", &["status: REFUSED"]),
    ("dig", "version.bind CH TXT", &["status: REFUSED"]),
    ("dig", "www.gslb.example.com CH A", &["status: REFUSED"]),
    // Case stays as asked (draft-vixie-dnsext-dns0x20).
    ("dig", "WwW.gSlB.eXaMpLe.CoM A", &["ANSWER: 2,", "WwW.gSlB.eXaMpLe.CoM. 5 IN A"]),
    ("dig", "NOTHING.gslb.EXAMPLE.com A", &["status: NXDOMAIN", "gslb.EXAMPLE.com. 5 IN SOA"]),
    // SRV, and the names that it gives.
    ("dig", "_http._tcp.gslb.example.com SRV", &["ANSWER: 4,", "0 1 80 10-9-0-1.gslb.example.com.", "0 3 80 10-9-0-2.gslb.example.com.", "10-9-0-1.gslb.example.com. 5 IN A 10.9.0.1", "2001-db8-0-0-0-0-0-9.gslb.example.com. 5 IN AAAA 2001:db8::9"]),
    ("kdig", "_http._tcp.gslb.example.com SRV", &["ANSWER: 4;", "ADDITIONAL: 4"]),
    ("dig", "_http._tcp.gslb.example.com A", &["status: NOERROR", "ANSWER: 0,", "SOA"]),
    ("dig", "10-9-0-1.gslb.example.com A", &["ANSWER: 1,", "A 10.9.0.1"]),
    ("dig", "10-9-0-1.gslb.example.com AAAA", &["status: NOERROR", "ANSWER: 0,", "SOA"]),
    ("dig", "2001-db8-0-0-0-0-0-9.gslb.example.com AAAA", &["ANSWER: 1,", "AAAA 2001:db8::9"]),
    ("dig", "10-9-0-99.gslb.example.com A", &["status: NXDOMAIN"]),
    ("dig", "010-9-0-1.gslb.example.com A", &["status: NXDOMAIN"]),
    ("dig", "10-9-1-1.gslb.example.com A", &["status: NXDOMAIN"]),
    // ANY is answered, but not with everything.
    ("dig", "www.gslb.example.com ANY", &["ANSWER: 1,", "HINFO \"RFC8482\" \"\"", "!10.9.0."]),
    ("dig", "+notcp www.gslb.example.com ANY", &["ANSWER: 1,", "HINFO \"RFC8482\" \"\""]),
    ("dig", "nothing.gslb.example.com ANY", &["status: NXDOMAIN"]),
    // EDNS.
    ("dig", "+noedns www.gslb.example.com A", &["ANSWER: 2,", "ADDITIONAL: 0", "!OPT PSEUDOSECTION"]),
    ("dig", "+bufsize=4096 www.gslb.example.com A", &["udp: 1232"]),
    ("dig", "+bufsize=100 www.gslb.example.com A", &["ANSWER: 2,"]),
    ("dig", "+edns=1 +noednsneg www.gslb.example.com A", &["status: BADVERS", "EDNS: version: 0", "ANSWER: 0,"]),
    ("dig", "+ednsopt=65001:abcd www.gslb.example.com A", &["status: NOERROR", "ANSWER: 2,"]),
    ("dig", "+ednsflags=0x40 www.gslb.example.com A", &["status: NOERROR", "ANSWER: 2,"]),
    ("dig", "+dnssec www.gslb.example.com A", &["flags: do;", "ANSWER: 2,", "!RRSIG"]),
    ("kdig", "+edns=1 www.gslb.example.com A", &["BADVERS"]),
    ("dig", "+padding=128 www.gslb.example.com A", &["ANSWER: 2,"]),
    ("dig", "+nsid www.gslb.example.com A", &["status: NOERROR"]),
    // Truncation, then TCP.
    ("dig", "+noedns +ignore many.gslb.example.com A", &["flags: qr aa tc rd;", "ANSWER: 0,"]),
    ("dig", "+noedns many.gslb.example.com A", &["Truncated, retrying in TCP", "ANSWER: 60,"]),
    ("dig", "many.gslb.example.com A", &["ANSWER: 60,", "!Truncated"]),
    ("dig", "+ignore _many._tcp.gslb.example.com SRV", &["flags: qr aa tc rd;", "ANSWER: 0,"]),
    ("dig", "_many._tcp.gslb.example.com SRV", &["Truncated, retrying in TCP", "ANSWER: 60,", "ADDITIONAL: 61"]),
    ("dig", "+bufsize=600 +ignore many.gslb.example.com A", &["flags: qr aa tc rd;"]),
    ("kdig", "+tcp many.gslb.example.com A", &["ANSWER: 60;"]),
    ("kdig", "+tcp www.gslb.example.com A", &["ANSWER: 2;", "(TCP)"]),
    ("kdig", "+tcp +keepopen www.gslb.example.com A first.gslb.example.com A nothing.gslb.example.com A", &["ANSWER: 2;", "10.9.1.1", "status: NXDOMAIN"]),
    // Cookies.
    ("dig", "+cookie=0011223344556677 www.gslb.example.com A", &["COOKIE: 001122334455667701000000", "(good)"]),
    ("dig", "+nocookie www.gslb.example.com A", &["!COOKIE"]),
    ("dig", "+cookie=00112233445566778899 www.gslb.example.com A", &["status: FORMERR"]),
    ("kdig", "+cookie=0011223344556677 www.gslb.example.com A", &["COOKIE"]),
    // The network of the client is nobody's business here.
    ("dig", "+subnet=192.0.2.0/24 www.gslb.example.com A", &["ANSWER: 2,", "!CLIENT-SUBNET"]),
    // What is not done.
    ("dig", "+opcode=NOTIFY www.gslb.example.com SOA", &["status: NOTIMP", "opcode: NOTIFY"]),
    ("dig", "+opcode=UPDATE gslb.example.com SOA", &["status: NOTIMP", "opcode: UPDATE"]),
    ("dig", "+opcode=STATUS gslb.example.com SOA", &["status: NOTIMP"]),
    ("dig", "+opcode=7 gslb.example.com SOA", &["status: NOTIMP"]),
    ("dig", "gslb.example.com AXFR", &["Transfer failed."]),
    ("dig", "+tcp gslb.example.com IXFR=1", &["Transfer failed."]),
    ("kdig", "+tcp gslb.example.com AXFR", &["AXFR for gslb.example.com.", "!SOA"]),
    // Bits of the header.
    ("dig", "+norecurse www.gslb.example.com A", &["flags: qr aa;", "ANSWER: 2,"]),
    ("dig", "+cdflag www.gslb.example.com A", &["flags: qr aa rd cd;"]),
    ("dig", "+adflag www.gslb.example.com A", &["flags: qr aa rd;"]),
    ("dig", "+zflag www.gslb.example.com A", &["status: NOERROR", "ANSWER: 2,"]),
    ("dig", "+header-only", &["status: FORMERR"]),
];

#[test]
fn dig_and_kdig_are_told_what_they_should_be() {
    if !installed(&["dig", "kdig"]) {
        return;
    }
    assert!(CASES.len() >= 60);
    let setup = DnsSetup::start("cases");
    let mut wrong = String::new();
    for (tool, question, wants) in CASES {
        let (ip, port) = setup.listen.rsplit_once(':').expect("an address with a port");
        let mut command = Command::new(tool);
        command.args([format!("@{ip}"), "-p".to_string(), port.to_string()]).args(question.split(' '));
        let output = command.output().unwrap_or_else(|e| panic!("{tool}: {e}; scripts/setup.sh installs it"));
        let said = text(&output.stdout);
        // Columns are parted by as much white space as fits the eye.
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        for want in *wants {
            let holds = match want.strip_prefix('!') {
                Some(not) => !said.contains(not),
                None => said.contains(want),
            };
            if !holds {
                wrong += &format!("{tool} {question}: no \"{want}\" in\n  {said}\n");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
