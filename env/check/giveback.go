package check

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Run closes its instances at the end: on some servers each instance is a process,
// such as a JVM (sciworld) or a browser (webarena).

// lastMoments limits the time that Run takes to close instances after an interrupt.
const lastMoments = 5 * time.Second

// keep records an instance as open and returns its id. created is the reply to the
// create request, decoded; it has the shape environment.created.
func (c *checker) keep(created any) (id string) {
	if c.env.idFrom != "" {
		created = created.(map[string]any)[c.env.idFrom]
	}
	b, err := json.Marshal(created)
	if err != nil {
		panic(err) // a decoded value can always be marshalled
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.open, string(b)) {
		c.open = append(c.open, string(b))
	}
	return string(b)
}

// forget removes a closed instance from the open ones.
func (c *checker) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = slices.DeleteFunc(c.open, func(open string) bool { return open == id })
}

// adopt records the instance that a server may have created for an invalid request.
func (c *checker) adopt(got reply) {
	v, err := decode(got.body)
	if err != nil || c.env.created.fault("the reply", v) != "" {
		return
	}
	c.keep(v)
}

// closeAll closes all open instances and returns the number of instances that remain
// open. It stops early if the server has no close or hangs.
func (c *checker) closeAll() (left int) {
	if c.ctx.Err() != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), lastMoments)
		defer cancel()
		c.ctx = ctx
	}
	for i, id := range slices.Clone(c.open) {
		if c.timeouts >= maxTimeouts || c.ctx.Err() != nil {
			return left + len(c.open) - i
		}
		got, err := c.send("close", c.post("/close", fmt.Sprintf(`{%q:%s}`, c.env.idKey, id)))
		switch {
		case err != nil:
			left++
		case got.status == http.StatusNotFound || got.status == http.StatusMethodNotAllowed:
			return len(c.open)
		case got.status != http.StatusOK:
			left++
		}
	}
	return left
}
