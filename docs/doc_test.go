// Package docs holds the project's documentation; its tests keep the
// documentation and the structure it describes true.
package docs
