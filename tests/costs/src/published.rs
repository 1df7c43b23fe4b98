//! Schemas like those that people publish, and the places where a message can contain hostile values.

/// A place in a message with this schema: the hostile value replaces the `$` in `data`.
pub struct SchemaPlace {
    pub schema: &'static str,
    pub data: &'static str,
}

impl SchemaPlace {
    /// Returns the schema as JSON.
    ///
    /// # Panics
    /// If the schema does not exist.
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

/// Places that accept any value.
pub const PLACES: [SchemaPlace; 33] = [
    schema_place("order", r#"{"id":"AB-1","lines":$}"#),
    schema_place("order", r#"{"id":"AB-1","lines":[{"sku":"ABC","quantity":1,"price":$}]}"#),
    schema_place("order", r#"{"id":"AB-1","lines":[],"notes":$}"#),
    schema_place("order", r#"{"id":$,"lines":[{"sku":"ABC","quantity":1,"price":1}]}"#),
    schema_place("invoice", r#"{"lines":$}"#),
    schema_place(
        "invoice",
        r#"{"number":"2026-000001","issued":"2026-01-01","seller":{"name":"a"},"buyer":{"name":"b"},"total":1,"iban":"","lines":$}"#,
    ),
    schema_place(
        "invoice",
        r#"{"number":"2026-000001","issued":"2026-01-01","seller":{"name":"a"},"buyer":{"name":"b"},"total":1,"lines":[],"taxes":$}"#,
    ),
    schema_place("invoice", r#"{"total":$}"#),
    schema_place("github-push", r#"{"commits":$}"#),
    schema_place("github-push", r#"{"repository":$,"head_commit":{"added":[]}}"#),
    schema_place("github-push", r#"{"repository":{"topics":$,"owner":{"x":1}}}"#),
    schema_place("github-push", r#"{"compare":$}"#),
    schema_place("address", r#"{"addresses":$}"#),
    schema_place(
        "address",
        r#"{"addresses":[{"name":$,"street":"s","postcode":"12345","city":"c","country":"DE"}]}"#,
    ),
    schema_place(
        "address",
        r#"{"addresses":[{"name":"n","street":"s","postcode":"12345","city":"c","country":"DE","email":$}]}"#,
    ),
    schema_place("shop-events", r#"{"events":$}"#),
    schema_place("shop-events", r#"{"events":[{"kind":"order_paid","id":"1","at":"now","items":$}]}"#),
    schema_place("shop-events", r#"{"events":[{"kind":"unknown","id":"1","at":"now","items":$}]}"#),
    schema_place("measurements", r#"{"sensor":"s","values":$}"#),
    schema_place("measurements", r#"{"sensor":"s","points":$}"#),
    schema_place("measurements", r#"{"sensor":"s","sequence":$}"#),
    schema_place("labels", r#"{"labels":$}"#),
    schema_place("labels", r#"{"annotations":$}"#),
    schema_place("labels", r#"{"tags":$}"#),
    schema_place("article", r#"{"title":"t","text":$}"#),
    schema_place("article", r#"{"title":"t","text":"0123456789","summary":$}"#),
    schema_place("article", r#"{"title":"t","text":"0123456789","html":$}"#),
    schema_place("article", r#"{"title":"t","text":"0123456789","lines":$}"#),
    schema_place("filter", r#"{"where":$}"#),
    schema_place("filter", r#"{"where":{"op":"=","args":$}}"#),
    schema_place("settings", r#"{"service":$}"#),
    schema_place("settings", r#"{"services":$}"#),
    schema_place("settings", r#"{"list":$}"#),
];

/// Items that are repeated as often as a message allows.
pub const ITEMS: [(SchemaPlace, &str); 14] = [
    (
        schema_place("order", r#"{"id":"AB-1","lines":[$]}"#),
        r#"{"sku":"ABC","quantity":1e-999,"price":1e-999}"#,
    ),
    (
        schema_place("order", r#"{"id":"AB-1","lines":[$]}"#),
        r#"{"a":0,"sku":1,"price":"","quantity":0.5,"b":{}}"#,
    ),
    (
        schema_place("invoice", r#"{"taxes":[],"iban":"","lines":[$]}"#),
        r#"{"text":"","quantity":-1,"amount":1e-99,"tax":1e99}"#,
    ),
    (
        schema_place("github-push", r#"{"commits":[$]}"#),
        r#"{"id":"0","message":0,"timestamp":"","author":{"name":0,"email":0},"x":0}"#,
    ),
    (
        schema_place("address", r#"{"addresses":[$]}"#),
        r#"{"name":"Ann","street":"Main","postcode":"1","city":"C","country":"US"}"#,
    ),
    (
        schema_place("shop-events", r#"{"events":[$]}"#),
        r#"{"kind":"stock_counted","id":"1","at":"","items":[],"count":1}"#,
    ),
    (schema_place("shop-events", r#"{"events":[$]}"#), r#"{"kind":"","items":[{},{},{}]}"#),
    (schema_place("measurements", r#"{"sensor":"s","points":[$]}"#), "[1e-999,1e-999]"),
    (schema_place("measurements", r#"{"sensor":"s","points":[$]}"#), "[1000,12.345]"),
    (schema_place("labels", r#"{"tags":[$]}"#), r#"{"key":[],"value":[[],[],[{}]]}"#),
    (
        schema_place("filter", r#"{"where":{"op":"and","args":[$]}}"#),
        r#"{"op":"=","args":[{"op":"not","args":[{"op":"or","args":[0]}]}]}"#,
    ),
    (
        schema_place("settings", r#"{"list":[$]}"#),
        r#"{"name":"n","x-a":1,"port":80,"socket":"/","main":true,"tls":{},"certificate":""}"#,
    ),
    (schema_place("settings", r#"{"list":[$]}"#), r#"{"port":0,"a":0,"b":0,"tls":0,"user":0}"#),
    (schema_place("settings", r#"{"pairs":["",$]}"#), "{}"),
];

const fn schema_place(schema: &'static str, data: &'static str) -> SchemaPlace {
    SchemaPlace { schema, data }
}
