package readertest

import "testing"

func TestRun(t *testing.T) {
	got := Run(t, `import sys, tensorboard, mlflow, wandb, huggingface_hub, openai, gguf; print(sys.argv[1])`, "read")
	if got != "read\n" {
		t.Errorf("output %q, want %q", got, "read\n")
	}
}
