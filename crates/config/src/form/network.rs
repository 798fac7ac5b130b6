//! Networks: `10.0.0.0/8`, `fd00::/8`, or a single address.

use super::cidr::Cidr;
use super::misfit::Misfit;
use crate::code::Code;
use crate::tree::quoted;
use std::net::IpAddr;

pub(super) fn read(text: &str) -> Result<Cidr, Misfit> {
    let bad = |why: &str, help: String| {
        Err(Misfit::new(Code::BadNetwork, format!("{} is not a network: {why}", quoted(text)), help))
    };
    let (host, prefix) = text.split_once('/').map_or((text, None), |(host, prefix)| (host, Some(prefix)));
    let Ok(address) = host.parse::<IpAddr>() else {
        let help = "write \"10.0.0.0/8\", \"fd00::/8\" or one address, without a port and without brackets";
        return bad(&format!("{} is not an IP address", quoted(host)), help.to_string());
    };
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let digits = |p: &str| p.bytes().all(|b| b.is_ascii_digit());
    let prefix = match prefix {
        None => Some(bits),
        Some(prefix) => prefix.parse().ok().filter(|_| digits(prefix)),
    };
    let Some(cidr) = prefix.and_then(|prefix| Cidr::around(address, prefix)) else {
        return bad("its prefix length is out of range", format!("allowed: {host}/0 to {host}/{bits}"));
    };
    // 10.1.2.3/8 may mean all of 10.0.0.0/8 or only this address.
    if cidr.network() != address.to_canonical() {
        let prefix = cidr.prefix();
        return bad(
            &format!("bits are set after the prefix of {prefix}"),
            format!("write \"{cidr}\" for the whole network, or \"{host}\" for that address alone"),
        );
    }
    Ok(cidr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_networks_and_addresses() {
        for (text, shown) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("::/0", "::/0"),
            ("::1", "::1"),
            ("127.0.0.1/32", "127.0.0.1"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("FD00::/8", "fd00::/8"),
        ] {
            assert_eq!(read(text).map(|c| c.to_string()), Ok(shown.to_string()));
        }
    }

    #[test]
    fn refuses_the_rest_with_a_fix() {
        for (text, help) in [
            ("", "\"10.0.0.0/8\""),
            ("10.0.0.0/", "10.0.0.0/0 to 10.0.0.0/32"),
            ("10.0.0.0/33", "10.0.0.0/0 to 10.0.0.0/32"),
            ("10.0.0.0/+8", "10.0.0.0/0 to 10.0.0.0/32"),
            ("fd00::/129", "fd00::/0 to fd00::/128"),
            ("10.1.2.3/8", "\"10.0.0.0/8\" for the whole network, or \"10.1.2.3\""),
            ("fd00::1/8", "\"fd00::/8\""),
            ("10.0.0.1:80", "without a port"),
            ("[::1]", "without brackets"),
            ("example.com", "one address"),
        ] {
            let misfit = read(text).expect_err(text);
            assert!(misfit.help.contains(help), "{text}: {misfit:?}");
        }
    }
}
