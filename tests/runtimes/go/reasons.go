package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/aws/aws-lambda-go/events"
)

type cardDeclined struct{ order int }

func (declined cardDeclined) Error() string {
	return fmt.Sprintf("order %d: no funds", declined.order)
}

// Fails according to data.does.
func reasons(_ context.Context, event events.SQSEvent) error {
	var message struct {
		Data struct{ Does string }
	}
	if err := json.Unmarshal([]byte(event.Records[0].Body), &message); err != nil {
		return err
	}
	switch message.Data.Does {
	case "fails":
		return cardDeclined{7}
	case "points":
		return &cardDeclined{7}
	case "wraps":
		return fmt.Errorf("charge: %w", cardDeclined{7})
	case "says":
		return errors.New("no such order")
	case "panics":
		panic(cardDeclined{7})
	case "panics with a text":
		panic("no such order")
	case "reads beyond the end":
		none := make([]int, 0)
		fmt.Println(none[event.Records[0].Body[0]])
	case "exits":
		os.Exit(3)
	}
	return nil
}

// Allocates more memory than the process is allowed to.
func takeAllMemory() {
	limit := syscall.Rlimit{Cur: 1 << 32, Max: 1 << 32}
	must(syscall.Setrlimit(syscall.RLIMIT_AS, &limit))
	var kept [][]byte
	for {
		kept = append(kept, make([]byte, 1<<26))
	}
}
