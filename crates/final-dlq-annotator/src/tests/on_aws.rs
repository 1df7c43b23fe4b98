//! The settings of a final-dlq-annotator on AWS take effect.

use redeliver_aws::settings::{ArchiveSettings, FinalDlqAnnotatorSettings, Logging};
use redeliver_aws::start;
use redeliver_core::archive::{OmitList, Prefix};

use super::*;

/// If these settings were ignored, payloads would be sent to anyone who registers the name of a deleted bucket, or the
/// archive would contain values that must not be stored.
#[test]
fn an_archive_has_the_configured_bucket_owner_prefix_and_omitted_pointers() {
    let setup = Setup::new();
    let omit = OmitList::parse("/data/email").unwrap();
    let settings = FinalDlqAnnotatorSettings {
        final_dlq_url: "https://sqs.eu-central-1.amazonaws.com/123456789012/orders-final-dlq".to_owned(),
        archive: Some(ArchiveSettings {
            bucket: "letters".to_owned(),
            bucket_owner: "444455556666".parse().unwrap(),
            prefix: Prefix::new("team=orders").unwrap(),
            omit: omit.clone(),
        }),
        notify: None,
        logging: Logging::default(),
    };
    let config = setup.world.clock.block_on(start::sdk_config());
    let annotator = FinalDlqAnnotator::on_aws(settings, &config, setup.world.seen.clone());
    let Archive { store, layout, omit: omitted } = annotator.archive.unwrap();
    assert_eq!(
        (layout.days_folder().as_str(), omitted),
        ("team=orders/dead-letters/deployment=orders-final-dlq/", omit)
    );
    let store = format!("{store:?}");
    assert!(store.ends_with(r#"name: "letters", owner: Some("444455556666") }"#), "{store}");
}
