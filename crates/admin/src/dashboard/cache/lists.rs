//! Lists of the page: the first URLs of an order, and the stored responses of a URL.

use super::super::page::Asked;
use super::super::shown::cut;
use super::super::table::{Column, Row, table};
use evenkeel_view::cache::{StoredResponse, TopKey};
use evenkeel_view::words::{ago, bytes, escaped, grouped};
use maud::{Markup, html};

const KEYS: &[Column] = &[
    Column::text("URL"),
    Column::number("Hits"),
    Column::number("Size"),
    Column::number("Variants"),
    Column::number("Age"),
    Column::number("Fresh for"),
    Column::text("Tags"),
];

const STORED: &[Column] = &[
    Column::text("Requests with"),
    Column::number("Status"),
    Column::number("Age"),
    Column::number("Fresh for"),
    Column::text("Lifetime by"),
    Column::number("Size"),
    Column::text("Tags"),
    Column::text("Validators"),
];

/// Draws the first URLs of an order.
pub fn keys(about: &str, keys: &[TopKey]) -> Markup {
    let row = |key: &TopKey| {
        Row::from(vec![
            html! { a href={ "/ui/cache?url=" (escaped(&key.url)) } { (cut(&key.url)) } },
            html! { (grouped(key.hits.into())) },
            html! { (bytes(key.bytes)) },
            html! { (grouped(key.variants)) },
            html! { (ago(u64::from(key.age_s) * 1000)) },
            fresh(key.ttl_s),
            html! { (cut(&key.tags.join(" "))) },
        ])
    };
    html! {
        @if keys.is_empty() { p.nothing { "Nothing is stored." } }
        @else { (table(about, KEYS, keys.iter().map(row))) }
    }
}

/// Time until a response is stale.
fn fresh(ttl_s: i64) -> Markup {
    html! {
        @if ttl_s > 0 { (ago(ttl_s.unsigned_abs().saturating_mul(1000))) }
        @else { span.dim { "stale for " (ago(ttl_s.unsigned_abs().saturating_mul(1000))) } }
    }
}

/// Draws the stored responses of a URL.
pub fn stored(asked: &Asked, url: &str) -> Markup {
    match asked.process.cache_show(url.trim()) {
        Err(problem) => html! { p.bad role="alert" { (problem.detail) } },
        Ok(all) if all.is_empty() => html! { p.nothing { "Nothing is stored for it." } },
        Ok(all) => table("Stored responses", STORED, all.iter().map(variant)),
    }
}

fn variant(stored: &StoredResponse) -> Row {
    let user = stored.user.as_ref().map(|user| format!("user {user}"));
    let with: Vec<String> = user.into_iter().chain(stored.key_fields.clone()).chain(stored.varies_by.clone()).collect();
    let validators: Vec<&str> =
        [&stored.etag, &stored.last_modified].into_iter().flatten().map(String::as_str).collect();
    Row::from(vec![
        html! {
            @if with.is_empty() { "any fields" } @else { (cut(&with.join("; "))) }
            div.dim { "route " (stored.route) }
        },
        html! { (stored.status) },
        html! { (ago(u64::from(stored.age_s) * 1000)) },
        html! { @if stored.no_cache { "validated each time" } @else { (fresh(stored.ttl_s)) } },
        html! { (stored.lifetime_by) @if stored.made_stale { div.dim { "ended by a soft purge" } } },
        html! { (bytes(stored.bytes)) },
        html! { (cut(&stored.tags.join(" "))) },
        html! { (cut(&validators.join(", "))) },
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_text_whatever_is_in_them() {
        let key = TopKey { url: "http://a/<b>&\"".into(), ttl_s: -61, ..TopKey::default() };
        let page = keys("Most used URLs", &[key]).into_string();
        assert!(page.contains("http://a/&lt;b&gt;&amp;&quot;</a>") && !page.contains("<b>"), "{page}");
        assert!(page.contains("href=\"/ui/cache?url=http:%2F%2Fa%2F%3Cb%3E%26%22\""), "{page}");
        assert!(page.contains("stale for 1m01s"), "{page}");
    }
}
