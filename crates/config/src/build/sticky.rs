//! `sticky` of `[pool.NAME]`.

use super::contradiction;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::plan::{SameSite, Secret, Sticky};
use crate::read::Section;
use evenkeel_balance::picker::Algorithm;
use std::path::PathBuf;

pub(super) fn sticky(pool: &Section, name: &str, algorithm: &Algorithm, findings: &mut Findings) -> Option<Sticky> {
    let place = pool.set("sticky")?.place;
    if algorithm.promises.affinity {
        let message = format!("the cookie of \"sticky\" goes before the key of \"{}\"", algorithm.name);
        findings
            .add(Code::AtOdds, place, message)
            .see("the algorithm is here", pool.place_of("balance"))
            .help("leave \"sticky\" out if the key is what matters, or choose another algorithm if the client is");
    }
    let sticky = pool.section("sticky");
    let secret = secret(&sticky, name, findings);
    let (secure, same_site) = (sticky.flag("secure"), same_site(sticky.word("same_site")));
    if same_site == SameSite::None && !secure && !sticky.is_broken() {
        let place = sticky.place_of("same_site");
        let message = "browsers drop a cookie with \"same_site\" none that is not \"secure\"";
        contradiction(&sticky, place, message, "secure", findings).help("add secure = true, or write \"lax\"");
    }
    Some(Sticky {
        cookie: sticky.text("cookie").unwrap_or_default(),
        secret: secret?,
        ttl: sticky.duration("ttl"),
        path: sticky.text("path").unwrap_or_default(),
        secure,
        same_site,
    })
}

fn secret(sticky: &Section, name: &str, findings: &mut Findings) -> Option<Secret> {
    match (sticky.set("secret"), sticky.set("secret_file")) {
        (None, None) => {
            findings
                .add(Code::Missing, sticky.place, format!("sticky of [pool.{name}] has no secret"))
                .help("add secret_file = \"/etc/evenkeel/sticky.key\" or secret = \"${STICKY_SECRET}\"");
            None
        }
        (Some(_), Some(file)) => {
            let message = "\"sticky\" has both \"secret\" and \"secret_file\"";
            contradiction(sticky, file.place, message, "secret", findings).help("keep one of them");
            None
        }
        (Some(_), None) => sticky.text("secret").map(Secret::Inline),
        (None, Some(_)) => sticky.text("secret_file").map(|path| Secret::File(PathBuf::from(path))),
    }
}

fn same_site(word: &str) -> SameSite {
    match word {
        "strict" => SameSite::Strict,
        "none" => SameSite::None,
        _ => SameSite::Lax,
    }
}
