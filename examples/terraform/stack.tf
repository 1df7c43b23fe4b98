# redeliver with an HTTP target, from its CloudFormation template: docs/terraform.md. var.bucket is your bucket in
# var.region.

locals {
  # Needs redeliver-arm64.template.yaml and zips such as redeliver-message-processor-arm64.zip beside this file.
  functions = toset(["message-processor", "failed-message-processor", "final-dlq-annotator"])
  zips      = { for name in local.functions : name => "${path.module}/redeliver-${name}-arm64.zip" }
  folder    = "redeliver/${sha256(join("", [for zip in values(local.zips) : filesha256(zip)]))}"
  # Like `aws cloudformation package`, this replaces each zip's name with its location in the bucket.
  template = replace(
    file("${path.module}/redeliver-arm64.template.yaml"),
    "/(Code|Content): redeliver-(.+)-arm64[.]zip/",
    "$1: { S3Bucket: ${var.bucket}, S3Key: ${local.folder}/$2.zip }"
  )
}

resource "aws_s3_object" "functions" {
  for_each = local.zips
  bucket   = var.bucket
  key      = "${local.folder}/${each.key}.zip"
  source   = each.value
}

resource "aws_s3_object" "template" {
  bucket  = var.bucket
  key     = "redeliver/${sha256(local.template)}.yaml"
  content = local.template
}

resource "aws_cloudformation_stack" "orders" {
  name         = "orders"
  template_url = "https://${var.bucket}.s3.${var.region}.amazonaws.com/${aws_s3_object.template.key}"
  capabilities = ["CAPABILITY_IAM"]
  parameters = {
    Prefix    = "orders"
    TargetUrl = "https://orders.example.com/hook"
    Policy    = file("${path.module}/policy.json")
  }
  depends_on = [aws_s3_object.functions]
}

output "source_queue_url" {
  value = aws_cloudformation_stack.orders.outputs["SourceQueueUrl"]
}
