// Package docs holds the project's documentation; its tests compare the pages with the code.
package docs
