//! The site: what its URLs are, when their content changes, and what an endpoint answers at a moment. No rule of caches here.

use bytes::Bytes;

pub const URLS: usize = 100_000;
pub const LANGUAGES: u64 = 3;

/// Times at which endpoints fail: for so long, once in so long.
const FAILS_MS: u64 = 120_000;
const FAILS_EVERY_MS: u64 = 3_600_000;

/// Random numbers of a seed (SplitMix64).
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

fn mix(seed: u64) -> u64 {
    let seed = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let seed = (seed ^ (seed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    seed ^ (seed >> 31)
}

/// Popularity by Zipf's law with exponent 0.9, as of sites (Breslau et al., 1999).
pub struct Zipf(Vec<f64>);

impl Zipf {
    pub fn new(urls: usize) -> Zipf {
        let mut sum = 0.0;
        let sums = (1..=urls).map(|rank| {
            sum += (rank as f64).powf(-0.9);
            sum
        });
        Zipf(sums.collect())
    }

    pub fn draw(&self, rng: &mut Rng) -> usize {
        let all = self.0[self.0.len() - 1];
        let at = rng.next() as f64 / u64::MAX as f64 * all;
        self.0.partition_point(|sum| *sum < at).min(self.0.len() - 1)
    }
}

/// Permission that responses of a URL state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Shared,
    /// Also for requests with `Authorization`.
    Public,
    /// To be validated each time.
    Validated,
    Private,
}

/// A URL. All of it follows from its number.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    pub url: usize,
    pub is_for: Use,
    /// Seconds, as its responses state.
    pub lifetime: u64,
    pub while_revalidate: u64,
    pub if_error: u64,
    pub has_tag: bool,
    pub varies: bool,
    pub label: usize,
    pub section: usize,
    size: usize,
    changes_every_ms: u64,
}

impl Page {
    pub fn of(url: usize) -> Page {
        let mut rng = Rng(url as u64 ^ 0xD1B5_4A32_D192_ED03);
        let mut one = |of: &[u64]| of[rng.below(of.len() as u64) as usize];
        Page {
            url,
            is_for: [Use::Shared, Use::Public, Use::Validated, Use::Private]
                [one(&[0, 0, 0, 0, 0, 1, 1, 2, 3]) as usize],
            lifetime: one(&[5, 60, 60, 600, 3600, 86_400]),
            while_revalidate: one(&[0, 0, 30, 600]),
            if_error: one(&[0, 0, 60, 3600]),
            has_tag: one(&[0, 1, 1]) == 1,
            varies: one(&[0, 0, 0, 1]) == 1,
            label: one(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]) as usize * 50 + url % 50,
            section: url % 97,
            size: one(&[200, 1000, 5000, 20_000]) as usize,
            changes_every_ms: one(&[20, 300, 3600, 86_400, 1_000_000]) * 1000,
        }
    }

    pub fn path(&self) -> String {
        format!("/s{}/{}", self.section, self.url)
    }

    /// Version of its content at a moment.
    pub fn version(&self, at: u64) -> u64 {
        (at + mix(self.url as u64) % self.changes_every_ms) / self.changes_every_ms
    }
}

/// Origin of an answer, as its body has it: the request that it was made for, and the version then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    pub url: usize,
    pub language: usize,
    pub version: u64,
    pub has_user: bool,
    pub request: u64,
}

impl Content {
    fn write(&self, size: usize) -> Bytes {
        let Content { url, language, version, has_user, request } = *self;
        let words = [url as u64, language as u64, version, has_user.into(), request];
        let mut body: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        body.resize(size, b'x');
        body.into()
    }

    pub fn read(body: &[u8]) -> Content {
        let word = |at: usize| u64::from_le_bytes(body[at * 8..][..8].try_into().expect("five words"));
        Content {
            url: word(0) as usize,
            language: word(1) as usize,
            version: word(2),
            has_user: word(3) == 1,
            request: word(4),
        }
    }
}

/// Answer of an endpoint. `fields`: names and values.
pub struct Answer {
    pub status: u16,
    pub fields: Vec<(&'static str, String)>,
    pub body: Bytes,
}

/// Field with the moment at which an endpoint has made or validated a response.
pub const MADE: &str = "X-Made";

/// Site with [`URLS`] pages.
pub struct Site(Vec<Page>);

impl Site {
    pub fn new() -> Site {
        Site((0..URLS).map(Page::of).collect())
    }

    pub fn page(&self, url: usize) -> &Page {
        &self.0[url]
    }

    pub fn fails(at: u64) -> bool {
        at % FAILS_EVERY_MS < FAILS_MS
    }

    /// Answer at a moment to a request with this `If-None-Match`.
    pub fn answer(&self, mut content: Content, condition: Option<&[u8]>, at: u64) -> Answer {
        let page = self.page(content.url);
        if Site::fails(at) {
            return Answer { status: 503, fields: Vec::new(), body: Bytes::from_static(b"down") };
        }
        content.version = page.version(at);
        let of_use = match page.is_for {
            Use::Shared => "",
            Use::Public => ", public",
            Use::Validated => ", no-cache",
            Use::Private => ", private",
        };
        let Page { lifetime, while_revalidate, if_error, .. } = page;
        let mut fields = vec![
            (
                "Cache-Control",
                format!(
                    "max-age={lifetime}, stale-while-revalidate={while_revalidate}, stale-if-error={if_error}{of_use}"
                ),
            ),
            (MADE, at.to_string()),
            ("Cache-Tag", format!("l{}", page.label)),
        ];
        if page.varies {
            fields.push(("Vary", "Accept-Language".into()));
        }
        if page.has_tag {
            let tag = format!("\"{}-{}-{}\"", content.version, content.language, content.has_user);
            let is_same = condition == Some(tag.as_bytes());
            fields.push(("ETag", tag));
            if is_same {
                return Answer { status: 304, fields, body: Bytes::new() };
            }
        }
        Answer { status: 200, fields, body: content.write(page.size) }
    }
}
