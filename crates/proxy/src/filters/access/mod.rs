//! Filter that answers requests of clients whose networks a route does not allow, by its [`lists`].

pub mod lists;

use super::exchange::Exchange;
use super::filter::{DryRun, Filter, RequestHead, Verdict};
use super::row::Build;
use crate::body::response::Response;
use evenkeel_balance::published::Reader;
use lists::{AccessLists, Table};
use std::borrow::Cow;
use std::cell::RefCell;

struct Networks {
    table: RefCell<Reader<Table>>,
    /// Status of the answer to refused requests.
    status: u16,
}

pub fn build(from: &Build<'_>) -> Option<Box<dyn Filter>> {
    let list = from.resources.of::<AccessLists>().of(&from.route.as_ref()?.plan.name)?;
    Some(Box::new(Networks { table: list.reader().into(), status: list.status }))
}

impl Filter for Networks {
    fn request<'c>(&'c self, cx: &mut Exchange<'c>, _: &mut RequestHead<'_, '_, '_>) -> Verdict {
        let mut table = self.table.borrow_mut();
        table.refresh();
        match table.get().allows(cx.client()) {
            true => Verdict::Next,
            false => Verdict::Answer(self.refuse(cx)),
        }
    }

    fn dry_run<'c>(&'c self, cx: &mut Exchange<'c>, head: &mut RequestHead<'_, '_, '_>) -> DryRun {
        let verdict = self.request(cx, head);
        let why = self.did(cx);
        match verdict {
            Verdict::Answer(response) => {
                DryRun::Answer(response, why.strip_prefix("refused: ").unwrap_or(&why).to_string().into())
            }
            _ => DryRun::Next(why),
        }
    }

    fn did(&self, cx: &Exchange<'_>) -> Cow<'static, str> {
        let (client, table) = (cx.client(), self.table.borrow());
        match (table.get().allows(client), table.get().lists(client)) {
            (true, true) => format!("{client} is in an allowed network").into(),
            (true, false) => "".into(),
            (false, true) => format!("refused: {client} is in a denied network").into(),
            (false, false) => format!("refused: {client} is in no allowed network").into(),
        }
    }
}

impl Networks {
    #[cold]
    fn refuse(&self, cx: &Exchange<'_>) -> Response {
        cx.stats.access_refused.add(1);
        Response::new(self.status, "this client may not use the route: see its access lists")
    }
}
