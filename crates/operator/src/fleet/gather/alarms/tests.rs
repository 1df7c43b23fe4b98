use aws_sdk_cloudwatch::types::{Metric as Named, MetricStat, StateValue};

use super::*;

fn dimension(name: &str, value: &str) -> Dimension {
    Dimension::builder().name(name).value(value).build()
}

fn queue_watch(name: &str) -> AlarmWatch {
    AlarmWatch { account: None, queues: WatchedQueues::Named(name.to_owned()) }
}

#[test]
fn an_alarm_on_a_queue_metric_watches_that_queue() {
    let alarm = |namespace: &str, dimension: Dimension| {
        let alarm = MetricAlarm::builder().alarm_name("pager").state_value(StateValue::Alarm);
        parse_alarm(
            &alarm.namespace(namespace).metric_name("NumberOfMessagesSent").dimensions(dimension).build(),
        )
    };
    let found = alarm("AWS/SQS", dimension("QueueName", "dead")).unwrap();
    let expected =
        Alarm { name: "pager".to_owned(), state: "ALARM".to_owned(), watches: vec![queue_watch("dead")] };
    assert_eq!(found, expected);
    assert_eq!(alarm("AWS/SNS", dimension("QueueName", "dead")), None);
    assert_eq!(alarm("AWS/SQS", dimension("TopicName", "dead")), None);
}

#[test]
fn a_metric_math_alarm_watches_each_queue_in_it() {
    let stat = |queue: &str| {
        let metric = Named::builder().namespace("AWS/SQS").dimensions(dimension("QueueName", queue)).build();
        MetricStat::builder().metric(metric).period(60).stat("Maximum").build()
    };
    let query = || MetricDataQuery::builder().id("m");
    let sum = query().expression("m1 + m2").build();
    let other = query().metric_stat(stat("there")).account_id("210987654321").build();
    let select = r#"SELECT MAX(ApproximateNumberOfMessagesVisible) FROM "AWS/SQS""#;
    let alarm = MetricAlarm::builder().alarm_name("math").metrics(query().metric_stat(stat("here")).build());
    let alarm = alarm.metrics(sum).metrics(other).metrics(query().expression(select).build()).build();
    let found = parse_alarm(&alarm).unwrap();
    let elsewhere = AlarmWatch { account: Some("210987654321".to_owned()), ..queue_watch("there") };
    let by_query = AlarmWatch { account: None, queues: WatchedQueues::SelectedBy(select.to_owned()) };
    assert_eq!(found.watches, [queue_watch("here"), elsewhere, by_query]);
    assert_eq!(found.state, "INSUFFICIENT_DATA");
    let other_namespace = r#"SELECT MAX(Errors) FROM "AWS/Lambda""#;
    let alarm = MetricAlarm::builder().metrics(query().expression(other_namespace).build());
    assert_eq!(parse_alarm(&alarm.build()), None);
}
