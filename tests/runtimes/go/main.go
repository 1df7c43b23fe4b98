// Handlers for an OS-only runtime, with AWS's library for Go. By default the handler follows data.script: one action for
// each attempt or crash, then ok. HANDLER=reasons selects a handler that fails according to data.does; HANDLER=idle
// selects one that does nothing, for measuring the cost of a call.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambda/messages"
)

func main() {
	switch os.Getenv("HANDLER") {
	case "reasons":
		lambda.Start(reasons)
	case "idle":
		lambda.Start(idle)
	}
	note(fmt.Sprintf("process %d", os.Getpid()))
	pauseRestart()
	terminations := make(chan os.Signal, 1)
	signal.Notify(terminations, syscall.SIGTERM)
	go func() {
		<-terminations
		note("SIGTERM")
		os.Exit(0)
	}()
	lambda.Start(scripted)
}

func scripted(_ context.Context, event json.RawMessage) (interface{}, error) {
	var sqs events.SQSEvent
	if err := json.Unmarshal(event, &sqs); err != nil {
		return nil, err
	}
	if len(sqs.Records) == 0 {
		return other(event)
	}
	action, text, err := begin(sqs.Records[0])
	if err != nil {
		return nil, err
	}
	switch action {
	case "permanent":
		return redeliver{map[string]interface{}{
			"outcome": "permanent", "type": "Scripted.Permanent", "details": text,
		}}, nil
	case "snooze":
		return redeliver{map[string]interface{}{
			"outcome": "snooze", "delay_seconds": 1, "type": "Scripted.Snooze", "details": "later",
		}}, nil
	case "transient":
		return nil, transient(text)
	case "panic":
		panic(errors.New(text))
	case "hang":
		select {}
	case "block":
		for {
		}
	case "loud":
		line := strings.Repeat("x", 999)
		for n := 0; n < 10000; n++ {
			fmt.Println(line)
		}
	case "memory":
		// The Go runtime ends the process, and no handler can recover.
		takeAllMemory()
	case "exit":
		os.Exit(3)
	case "signal":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return nil, nil
}

type redeliver struct {
	Redeliver map[string]interface{} `json:"redeliver"`
}

func idle(context.Context, events.SQSEvent) (events.SQSEventResponse, error) {
	return events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}, nil
}

// Handles an event that is not from SQS.
func other(event json.RawMessage) (interface{}, error) {
	var request struct{ Error string }
	if json.Unmarshal(event, &request) == nil && request.Error != "" {
		return nil, transient(request.Error)
	}
	var wrapper *string
	if value, ok := os.LookupEnv("OTHER_WRAPPER"); ok {
		wrapper = &value
	}
	return map[string]interface{}{"event": event, "other_wrapper": wrapper}, nil
}

// Returns an error with an explicit name: for other errors the library uses the name of the type, without its package.
func transient(text string) error {
	return messages.InvokeResponse_Error{Type: "Scripted.Transient", Message: text}
}

// Writes the call to the journal, and returns its action and the message's text.
func begin(record events.SQSMessage) (string, string, error) {
	var message struct {
		Metadata struct {
			MessageID    string `json:"message_id"`
			RetryAttempt int    `json:"retry_attempt"`
			RedriveCount int    `json:"redrive_count"`
			SnoozeCount  int    `json:"snooze_count"`
			RetryHistory []struct {
				ErrorType string `json:"error_type"`
			} `json:"retry_history"`
		}
		Data struct {
			Script []string
			Text   string
		}
	}
	if err := json.Unmarshal([]byte(record.Body), &message); err != nil {
		return "", "", err
	}
	metadata, data := message.Metadata, message.Data
	receives, err := strconv.Atoi(record.Attributes["ApproximateReceiveCount"])
	if err != nil {
		return "", "", err
	}
	action := "ok"
	// With the strategy visibility, SQS counts the attempts.
	if done := metadata.RetryAttempt + metadata.RedriveCount + receives - 1; done < len(data.Script) {
		action = data.Script[done]
	}
	// A snooze spends no attempt, so a repeated snooze would never end.
	if action == "snooze" && metadata.SnoozeCount > 0 {
		action = "ok"
	}
	last := "-"
	if calls := len(metadata.RetryHistory); calls > 0 {
		last = metadata.RetryHistory[calls-1].ErrorType
	}
	note(fmt.Sprintf("%s %d %d %s %s", metadata.MessageID, metadata.RetryAttempt, metadata.SnoozeCount, action, last))
	return action, data.Text, nil
}

// Delays the start of a replacement process by RESTART_SECONDS.
func pauseRestart() {
	journal, err := os.Open(os.Getenv("SCRIPT_JOURNAL"))
	must(err)
	defer journal.Close()
	processes := 0
	for lines := bufio.NewScanner(journal); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "process") {
			processes++
		}
	}
	if seconds, err := strconv.Atoi(os.Getenv("RESTART_SECONDS")); err == nil && processes > 1 {
		time.Sleep(time.Duration(seconds) * time.Second)
	}
}

func note(line string) {
	journal, err := os.OpenFile(os.Getenv("SCRIPT_JOURNAL"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(err)
	defer journal.Close()
	_, err = journal.WriteString(line + "\n")
	must(err)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
