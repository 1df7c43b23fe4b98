//! Schemas of the kind that people publish, and where their messages may be hostile.

/// A schema with a place of a message: the hostile value stands for the `$` of `data`.
pub struct Place {
    pub schema: &'static str,
    pub data: &'static str,
}

impl Place {
    /// The schema's text.
    ///
    /// # Panics
    /// There is no such schema.
    #[must_use]
    pub fn schema_text(&self) -> &'static str {
        let found = SCHEMAS.iter().find(|(name, _)| *name == self.schema);
        found.map_or_else(|| panic!("no schema is named {}", self.schema), |(_, text)| text)
    }
}

const SCHEMAS: [(&str, &str); 10] = [
    ("order", include_str!("../schemas/order.json")),
    ("invoice", include_str!("../schemas/invoice.json")),
    ("github-push", include_str!("../schemas/github-push.json")),
    ("address", include_str!("../schemas/address.json")),
    ("shop-events", include_str!("../schemas/shop-events.json")),
    ("measurements", include_str!("../schemas/measurements.json")),
    ("labels", include_str!("../schemas/labels.json")),
    ("article", include_str!("../schemas/article.json")),
    ("filter", include_str!("../schemas/filter.json")),
    ("settings", include_str!("../schemas/settings.json")),
];

/// Any value may stand in these.
pub const PLACES: [Place; 33] = [
    place("order", r#"{"id":"AB-1","lines":$}"#),
    place("order", r#"{"id":"AB-1","lines":[{"sku":"ABC","quantity":1,"price":$}]}"#),
    place("order", r#"{"id":"AB-1","lines":[],"notes":$}"#),
    place("order", r#"{"id":$,"lines":[{"sku":"ABC","quantity":1,"price":1}]}"#),
    place("invoice", r#"{"lines":$}"#),
    place(
        "invoice",
        r#"{"number":"2026-000001","issued":"2026-01-01","seller":{"name":"a"},"buyer":{"name":"b"},"total":1,"iban":"","lines":$}"#,
    ),
    place(
        "invoice",
        r#"{"number":"2026-000001","issued":"2026-01-01","seller":{"name":"a"},"buyer":{"name":"b"},"total":1,"lines":[],"taxes":$}"#,
    ),
    place("invoice", r#"{"total":$}"#),
    place("github-push", r#"{"commits":$}"#),
    place("github-push", r#"{"repository":$,"head_commit":{"added":[]}}"#),
    place("github-push", r#"{"repository":{"topics":$,"owner":{"x":1}}}"#),
    place("github-push", r#"{"compare":$}"#),
    place("address", r#"{"addresses":$}"#),
    place(
        "address",
        r#"{"addresses":[{"name":$,"street":"s","postcode":"12345","city":"c","country":"DE"}]}"#,
    ),
    place(
        "address",
        r#"{"addresses":[{"name":"n","street":"s","postcode":"12345","city":"c","country":"DE","email":$}]}"#,
    ),
    place("shop-events", r#"{"events":$}"#),
    place("shop-events", r#"{"events":[{"kind":"order_paid","id":"1","at":"now","items":$}]}"#),
    place("shop-events", r#"{"events":[{"kind":"unknown","id":"1","at":"now","items":$}]}"#),
    place("measurements", r#"{"sensor":"s","values":$}"#),
    place("measurements", r#"{"sensor":"s","points":$}"#),
    place("measurements", r#"{"sensor":"s","sequence":$}"#),
    place("labels", r#"{"labels":$}"#),
    place("labels", r#"{"annotations":$}"#),
    place("labels", r#"{"tags":$}"#),
    place("article", r#"{"title":"t","text":$}"#),
    place("article", r#"{"title":"t","text":"0123456789","summary":$}"#),
    place("article", r#"{"title":"t","text":"0123456789","html":$}"#),
    place("article", r#"{"title":"t","text":"0123456789","lines":$}"#),
    place("filter", r#"{"where":$}"#),
    place("filter", r#"{"where":{"op":"=","args":$}}"#),
    place("settings", r#"{"service":$}"#),
    place("settings", r#"{"services":$}"#),
    place("settings", r#"{"list":$}"#),
];

/// As many of an item as fit into a message.
pub const ITEMS: [(Place, &str); 14] = [
    (place("order", r#"{"id":"AB-1","lines":[$]}"#), r#"{"sku":"ABC","quantity":1e-999,"price":1e-999}"#),
    (place("order", r#"{"id":"AB-1","lines":[$]}"#), r#"{"a":0,"sku":1,"price":"","quantity":0.5,"b":{}}"#),
    (
        place("invoice", r#"{"taxes":[],"iban":"","lines":[$]}"#),
        r#"{"text":"","quantity":-1,"amount":1e-99,"tax":1e99}"#,
    ),
    (
        place("github-push", r#"{"commits":[$]}"#),
        r#"{"id":"0","message":0,"timestamp":"","author":{"name":0,"email":0},"x":0}"#,
    ),
    (
        place("address", r#"{"addresses":[$]}"#),
        r#"{"name":"Ann","street":"Main","postcode":"1","city":"C","country":"US"}"#,
    ),
    (
        place("shop-events", r#"{"events":[$]}"#),
        r#"{"kind":"stock_counted","id":"1","at":"","items":[],"count":1}"#,
    ),
    (place("shop-events", r#"{"events":[$]}"#), r#"{"kind":"","items":[{},{},{}]}"#),
    (place("measurements", r#"{"sensor":"s","points":[$]}"#), "[1e-999,1e-999]"),
    (place("measurements", r#"{"sensor":"s","points":[$]}"#), "[1000,12.345]"),
    (place("labels", r#"{"tags":[$]}"#), r#"{"key":[],"value":[[],[],[{}]]}"#),
    (
        place("filter", r#"{"where":{"op":"and","args":[$]}}"#),
        r#"{"op":"=","args":[{"op":"not","args":[{"op":"or","args":[0]}]}]}"#,
    ),
    (
        place("settings", r#"{"list":[$]}"#),
        r#"{"name":"n","x-a":1,"port":80,"socket":"/","main":true,"tls":{},"certificate":""}"#,
    ),
    (place("settings", r#"{"list":[$]}"#), r#"{"port":0,"a":0,"b":0,"tls":0,"user":0}"#),
    (place("settings", r#"{"pairs":["",$]}"#), "{}"),
];

const fn place(schema: &'static str, data: &'static str) -> Place {
    Place { schema, data }
}
