//! When do certificates expire?

use super::page::{Asked, Page};
use maud::{Markup, html};

/// The page.
pub static PAGE: Page = Page {
    path: "/ui/certificates",
    name: "Certificates",
    content: |asked| Box::pin(async move { Ok(content(&asked)) }),
    is_live: true,
};

/// One that has fewer days left is pointed out.
const SOON: f64 = 14.0;

fn content(asked: &Asked) -> Markup {
    let (certificates, now_ms) = (asked.process.certificates(), asked.process.status().now_ms);
    let days = |ms: u64| (ms as f64 - now_ms as f64) / 86_400_000.0;
    html! {
        h1 { "Certificates" }
        p.dim { "Those that clients are shown, the one that expires first on top." }
        @if certificates.is_empty() { p { "No listener has certificates from files or an authority." } }
        @else { div.wide tabindex="0" role="region" aria-label="Scrolls sideways" { table {
            thead { tr { th scope="col" { "Name" } th scope="col" { "Listener" } th.number scope="col" { "Expires in" } th scope="col" { "Renewed" } } }
            tbody { @for certificate in &certificates { tr {
                @let left = days(certificate.not_after_ms);
                th scope="row" { (certificate.name) }
                td { (certificate.listener) }
                td.number { @if left < 0.0 { span.bad { "expired" } } @else if left < SOON { span.bad { (format!("{left:.1} days")) } } @else { (format!("{left:.0} days")) } }
                td { @match certificate.renewed_ms { Some(at) => { (format!("in {:.0} days, by an authority", days(at).max(0.0))) } None => { "by its files" } } }
            } } }
        } } }
    }
}
