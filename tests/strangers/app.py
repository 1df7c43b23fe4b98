"""Somebody's app with the package from pip: what the app of this repository makes of the same values."""

from aws_cdk import App, CfnOutput, Duration, RemovalPolicy, Stack, Validations
from aws_cdk.aws_lambda import Architecture
from cdk_nag import AwsSolutionsChecks
from redeliver_cdk import Backoff, Jitter, Redeliver, RetryPolicy, Target

app = App()
Validations.of(app).add_plugins(AwsSolutionsChecks(app))
prefix, target, architecture = (app.node.try_get_context(name) for name in ("prefix", "target", "architecture"))

stack = Stack(
    app,
    "Redeliver",
    stack_name=f"{prefix}-prod",
    description="redeliver: delayed, jittered retries for SQS and Lambda",
)
redeliver = Redeliver(
    stack,
    "Redeliver",
    target=Target.http(target),
    policy=RetryPolicy.of(max_attempts=2, backoff=Backoff.fixed(Duration.seconds(1), jitter=Jitter.NONE)),
    prefix=prefix,
    architecture=Architecture.ARM_64 if architecture == "arm64" else Architecture.X86_64,
    removal_policy=RemovalPolicy.DESTROY,
)
for name, queue, description in (
    ("SourceQueueUrl", redeliver.source_queue, "Send messages here."),
    ("IntermediateDlqUrl", redeliver.intermediate_dlq, "Failed, until their retry is scheduled."),
    ("AnnotationQueueUrl", redeliver.annotation_queue, "Given up, until annotated."),
    ("FinalDlqUrl", redeliver.final_dlq, "Given up, with the reason. Read it."),
):
    CfnOutput(stack, name, value=queue.queue_url, description=description)
app.synth()
