//! Pages that follow events: their content is rendered every second, and sent if it has changed.

use super::page::{Asked, Page};
use crate::api::problem::Problem;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use evenkeel_config::printable::printable;
use futures_core::Stream;
use maud::{Markup, html};
use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior, interval_at};

/// Time between two renderings for a client that follows a page.
const EVERY: Duration = Duration::from_secs(1);

/// Renders the content of a page now, with the status of the response.
pub async fn content(page: &Page, asked: &Asked) -> (u16, Markup) {
    match (page.content)(asked.clone()).await {
        Ok(content) => (200, content),
        Err(problem) => (problem.status, refused(&problem)),
    }
}

fn refused(problem: &Problem) -> Markup {
    html! {
        h1 { (problem.title) }
        p { (problem.detail) }
    }
}

/// Writes a page as it is sent: characters by which clients could reorder the text around theirs are escaped.
pub fn shown(page: Markup) -> String {
    let text = page.into_string();
    match printable(&text, &['\n', '\r', '\t']) {
        Cow::Borrowed(_) => text,
        Cow::Owned(shown) => shown,
    }
}

type Rendered = Pin<Box<dyn Future<Output = String> + Send>>;

/// Stream of a page's content for a client that follows it.
pub struct Following {
    page: &'static Page,
    asked: Asked,
    tick: Interval,
    /// Rendering that is under way.
    rendering: Option<Rendered>,
    /// Content that was sent last.
    last: String,
}

impl Following {
    /// Starts with the next second: the page that was loaded has the content of this second.
    pub fn new(page: &'static Page, asked: Asked) -> Following {
        let mut tick = interval_at(tokio::time::Instant::now() + EVERY, EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Following { page, asked, tick, rendering: None, last: String::new() }
    }
}

impl IntoResponse for Following {
    fn into_response(self) -> Response {
        Sse::new(self).keep_alive(KeepAlive::default()).into_response()
    }
}

impl Stream for Following {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if self.rendering.is_none() {
                ready!(self.tick.poll_tick(cx));
                let (page, asked) = (self.page, self.asked.clone());
                self.rendering = Some(Box::pin(async move { shown(content(page, &asked).await.1) }));
            }
            let Some(rendering) = &mut self.rendering else { continue };
            let now = ready!(rendering.as_mut().poll(cx));
            self.rendering = None;
            if now != self.last {
                self.last.clone_from(&now);
                // The event splits the data at line feeds.
                return Poll::Ready(Some(Ok(Event::default().event("content").data(now))));
            }
        }
    }
}
